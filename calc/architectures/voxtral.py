"""Voxtral (Mistral AI 2025, arXiv:2507.13264): a language model of Llama's class, which hears Whisper's encoder: a few
neighbouring vectors of it are laid side by side and pass two dense layers."""

from __future__ import annotations

from calc.architectures import llama
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.qwen2_audio import audio_section, untied, with_defaults
from calc.architectures.vision import text_section
from calc.architectures.whisper import audio_tower
from calc.spec import Dense, ModelSpec, Projector

DEFAULTS = {"num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072}
"""What transformers' VoxtralConfig puts into a text_config that leaves it out."""
THETA, EPS = 100_000_000.0, 1e-5


def spec(cfg: Config) -> ModelSpec:
    """As many vectors become one as the tower's MLPs are wider than it."""
    section = with_defaults(text_section(cfg, "llama"), DEFAULTS)
    section.raw = {"rope_theta": THETA, "rms_norm_eps": EPS} | section.raw
    text = untied(cfg, section, llama.spec(section))
    audio = audio_section(cfg, "voxtral_encoder")
    d_ff, d_model = audio.size("encoder_ffn_dim"), audio.size("d_model")
    projector = Projector(
        merge=audio.multiple("intermediate_size", d_ff, "hidden_size", d_model),
        layers=(Dense(name="linear_1", d_out=text.d_model, bias=False), Dense(name="linear_2", bias=False)),
        activation=activation(cfg, "projector_hidden_act", absent="gelu"),
    )
    return text.model_copy(update={"audio": audio_tower(audio, projector, normed=True)})
