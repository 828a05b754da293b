"""Granite's mixtures of experts (IBM 2024): Granite's attention, routed experts in every layer."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.granite import ends, granite_attention
from calc.architectures.llama import uniform
from calc.architectures.mixtral import local_experts
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GraniteMoeConfig."""
    residual_scale = cfg.number("residual_multiplier", absent=1.0)
    experts = local_experts(cfg)
    return uniform(cfg, granite_attention(cfg), experts, max_seq_len=2048, residual_scale=residual_scale, **ends(cfg))
