"""Gemma 3n (Google, 2025): the language model of gemma3n_text, the ears of gemma3n_audio, timm's MobileNet-v5 as eyes.

Every token passes the tables of tokens for pictures and sounds too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calc.architectures import gemma3n_audio, gemma3n_text
from calc.architectures.config import Config
from calc.architectures.vision import multimodal, text_section, vision_section
from calc.errors import Refused
from calc.reading.files import parse_toml, read_text
from calc.spec import Markers, MobileNet, MobileStage, ModelSpec, Tower

EYES = Path(__file__).parents[1] / "data" / "mobilenetv5.toml"


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Gemma3nConfig. Errors: Refused for eyes other than the published ones."""
    text = multimodal(cfg, gemma3n_text.spec(text_section(cfg, "gemma3n_text")), None, tied=True)
    audio = cfg.section("audio_config")
    audio.only("model_type", "gemma3n_audio", why="the ears that are described")
    vision = vision_section(cfg, "gemma3n_vision")
    vision.only("architecture", "mobilenetv5_300m_enc", why="the eyes that are described")
    vision.only("model_args", None, {}, why="eyes as timm builds them by themselves")
    eyes = _eyes()
    vision.only("hidden_size", eyes.d_out, why=f"what the eyes give, {eyes.d_out} numbers")
    pictures = _markers(vision, "pictures", eyes.d_out, first=262_144)
    sounds = _markers(audio, "sounds", audio.size("hidden_size", absent=1536), first=262_272)
    if sounds.first < pictures.first:
        raise Refused("audio_config.vocab_offset", f"{pictures.first} at least, that of vision_config", sounds.first)
    filler = (text.vocab_size or 0) - 1 - sounds.first
    fills = {"filler": filler if 0 <= filler < sounds.n_rows else None}
    sounds = sounds.model_copy(update={"n_vectors": cfg.size("audio_soft_tokens_per_image", absent=188)} | fills)
    cfg.only("vision_soft_tokens_per_image", eyes.left**2, why="what the eyes give of every picture")
    pictures = pictures.model_copy(update={"end": sounds.first, "n_vectors": eyes.left**2})
    embedding = text.embedding.model_copy(update={"markers": (pictures, sounds)})
    ears = Tower(name="audio", **gemma3n_audio.stack_of(audio))
    return text.model_copy(update={"embedding": embedding, "audio": ears, "eyes": eyes})


def _markers(section: Config, name: str, width: int, first: int) -> Markers:
    return Markers(
        name=name,  # type: ignore[arg-type]
        n_rows=section.size("vocab_size", absent=128),
        width=width,
        norm=gemma3n_audio.NORM.model_copy(update={"eps": section.number("rms_norm_eps", absent=1e-6)}),
        first=section.count("vocab_offset", absent=first),
    )


def _eyes() -> MobileNet:
    table = parse_toml(read_text(EYES), EYES.name)
    stages = tuple(MobileStage(**{key: _tuples(value) for key, value in stage.items()}) for stage in table["stages"])
    return MobileNet(stages=stages, **{key: table[key] for key in ("side", "stem", "d_out", "expansion", "left")})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
