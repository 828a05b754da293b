"""Qwen2.5-Omni (arXiv:2503.20215): the thinker, Qwen2.5-VL with an audio tower beside the one for pictures, or the
talker, a language model of codes of speech."""

from __future__ import annotations

from calc.architectures.common import LAYER_NORM
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, gated_mlp
from calc.architectures.qwen2 import windowed
from calc.architectures.qwen2_5_vl import windowed_tower
from calc.architectures.qwen2_vl import text
from calc.architectures.rope import rope
from calc.architectures.vision import reaches_text, text_section, vision_section
from calc.architectures.whisper import FRAMES_PER_POSITION, mel_convolutions, side_layer
from calc.errors import Refused
from calc.spec import Dense, Embedding, Frames, Head, ModelSpec, Projector, Tower

ENDING = "ForConditionalGeneration"


def spec(cfg: Config) -> ModelSpec:
    """One half alone. The whole model has the talker beside the thinker, and what makes waves of its codes, which is
    not described."""
    if cfg.raw["model_type"] == "qwen2_5_omni_thinker":
        return _thinker(cfg)
    if cfg.raw["model_type"] == "qwen2_5_omni_talker":
        return _talker(cfg)
    return _thinker(thinker_section(cfg, "Qwen2_5Omni"))


def thinker_section(cfg: Config, prefix: str) -> Config:
    """`thinker_config` of a whole model. prefix: how the names of its classes begin.

    Errors: Refused where the model is built with its talker.
    """
    thinker, whole, named = f"{prefix}Thinker{ENDING}", f"{prefix}{ENDING}", cfg.named_class()
    if named not in (None, thinker, whole, f"{prefix}Model"):
        raise Refused("architectures", f"{whole} or {thinker}", named)
    if cfg.flag("enable_audio_output", absent=True) and named != thinker:
        expected = (
            f"false, or {thinker} as the class: the talker is a model of its own, and what makes waves is none here"
        )
        raise Refused("enable_audio_output", expected, cfg.raw.get("enable_audio_output", "nothing"))
    return cfg.section("thinker_config")


def _thinker(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen2_5OmniThinkerConfig, which alone ties the head."""
    section = text_section(cfg, "qwen2_5_omni_text")
    section.flag("tie_word_embeddings", absent=True)
    made = text(section, kv_absent=4, first=28, eps=1e-6, window=32768)
    return made.model_copy(
        update={
            "head": Head(tied=cfg.flag("tie_word_embeddings", absent=False)),
            "vision": windowed_tower(vision_section(cfg, "qwen2_5_omni_vision_encoder"), made.d_model, fused=False),
            "audio": _audio(cfg, made.d_model),
        }
    )


def _talker(cfg: Config) -> ModelSpec:
    """Codes are looked up in a table of the thinker's width, whose sum with what the thinker gives is projected.
    Defaults as in transformers' Qwen2_5OmniTalkerConfig; the head is never tied."""
    cfg.only("tie_word_embeddings", False, why="transformers does not tie this class's head")
    cfg.notes.append("what the thinker gives for each code is added to it, and is not counted")
    turned = rope(cfg, theta=1e6, sections=True)
    mixer = attention(cfg, kv_absent=4, kv_null=REFUSE, d_head_absent=128, qkv_bias=True, rope=turned)
    made = windowed(cfg, mixer, gated_mlp(cfg), window=32768)
    front = Embedding(d_embed=cfg.size("embedding_size", absent=3584), project_bias=True)
    return made.model_copy(update={"embedding": front, "head": Head(own_width=True)})


def _audio(cfg: Config, d_text: int) -> Tower:
    """Whisper's layers over pieces of 2 * n_window frames, each with positions of its own; the mean of every two
    vectors is normed, and passes one matrix. Defaults as in Qwen2_5OmniAudioEncoderConfig."""
    audio = cfg.section("audio_config")
    audio.only("model_type", "qwen2_5_omni_audio_encoder", why="the audio tower that this family is built around")
    d_model, window = audio.size("d_model"), audio.size("n_window", absent=100)
    if d_model % 2:
        raise Refused(f"{audio.where}d_model", "an even number, for sines and cosines", d_model)
    if window % 2:
        raise Refused(f"{audio.where}n_window", "an even number, since every two vectors become one", window)
    if window > (rows := audio.size("max_source_positions", absent=1500)):
        raise Refused(f"{audio.where}n_window", f"at most max_source_positions = {rows}", window)
    reaches_text(audio, "output_dim", d_text, absent=3584)
    cfg.notes.append("a sound is read in pieces of n_window * 2 frames; a shorter last piece is not described")
    return Tower(
        name="audio",
        d_model=d_model,
        embedding=Frames(
            n_frames=FRAMES_PER_POSITION * window,
            d_frame=audio.size("num_mel_bins", absent=128),
            convolutions=mel_convolutions(d_model),
            project=False,
            sinusoidal=True,
            sinusoid="halves",
        ),
        layers=(side_layer(audio, "encoder", d_model, "gelu", k_bias=False),),
        final_norm=None,
        projectors=(Projector(merge=2, join="mean", norm=LAYER_NORM, n_unread_marks=2, layers=(Dense(name="proj"),)),),
    )
