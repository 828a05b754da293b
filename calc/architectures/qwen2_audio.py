"""Qwen2-Audio (Chu et al. 2024, arXiv:2407.10759): Qwen2's class of language models, which hears Whisper's encoder,
every two of whose vectors become one."""

from __future__ import annotations

from calc.architectures import qwen2
from calc.architectures.config import Config
from calc.architectures.vision import text_section
from calc.architectures.whisper import LAYER_NORM, audio_tower
from calc.spec import Dense, Head, ModelSpec, Projector

SIZES = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32}
"""What published configs leave to the class of their language model, transformers' Qwen2Config."""


def spec(cfg: Config) -> ModelSpec:
    """The mean of every two vectors is normed, and passes one matrix."""
    section = text_section(cfg, "qwen2")
    text = untied(cfg, with_defaults(section, SIZES), qwen2.spec(section))
    projector = Projector(merge=2, join="mean", norm=LAYER_NORM, layers=(Dense(name="linear"),))
    return text.model_copy(
        update={"audio": audio_tower(audio_section(cfg, "qwen2_audio_encoder"), projector, normed=False)}
    )


def audio_section(cfg: Config, model_type: str) -> Config:
    """`audio_config`. Absent or null it is refused: transformers would build the tower of its class's defaults."""
    audio = cfg.section("audio_config")
    audio.only("model_type", model_type, why="the audio tower that this family is built around")
    cfg.notes.append("a sound is read in windows of max_source_positions * 2 frames, to which it is padded")
    return audio


def with_defaults(section: Config, defaults: dict[str, int]) -> Config:
    """The section with what its class takes where keys are absent, which is said."""
    for name, value in defaults.items():
        if name not in section.raw:
            section.notes.append(f"{section.where}{name} is absent: {value}, its class's default")
    section.raw = defaults | section.raw
    return section


def untied(cfg: Config, section: Config, text: ModelSpec) -> ModelSpec:
    """`text` with a head of its own, as transformers builds it whatever a config says; one that ties it is refused."""
    for each in (cfg, section):
        each.only("tie_word_embeddings", False, why="transformers does not tie this family's head")
    return text.model_copy(update={"head": Head(tied=False)})
