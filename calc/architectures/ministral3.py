"""Ministral 3 (Mistral AI 2025): Mistral's block with YaRN, and queries that grow past the length trained on."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.architectures.rope import rope, rope_section
from calc.spec import ModelSpec, Rope, Temperature

DEFAULT: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
"""What Ministral3Config takes for an absent `rope_parameters`, whatever rope_theta says."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Ministral3Config: 8 key-value heads, heads 128 wide, no window."""
    window = cfg.size("sliding_window", absent=None, null=None)
    turning = rope(cfg, default=DEFAULT)
    mixer = attention(
        cfg,
        kv_absent=8,
        kv_null=REFUSE,
        d_head_absent=128,
        window=window,
        rope=turning,
        temperature=grows(cfg, turning, DEFAULT, 262144),
    )
    return uniform(cfg, mixer, gated_mlp(cfg), eps=1e-5, max_seq_len=262144)


def grows(cfg: Config, turning: Rope, default: dict[str, Any], longest: int) -> Temperature:
    """How queries grow, as `rope_parameters` says. Scalings that need the length trained on take the longest for it.

    default, longest: what the family takes for absent `rope_parameters` and max_position_embeddings.
    """
    section = rope_section(cfg, default)
    needed = turning.scaling is not None and turning.scaling.kind in ("yarn", "llama3", "longrope")
    usual = cfg.size("max_position_embeddings", absent=longest) if needed else REFUSE
    every = section.size("original_max_position_embeddings", absent=usual)
    return Temperature(every=every, by=section.number("llama_4_scaling_beta"), start=0)
