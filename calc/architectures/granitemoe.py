"""Granite's mixtures of experts (IBM 2024): Granite's attention, routed experts in every layer."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.granite import ends, granite_attention
from calc.architectures.llama import uniform
from calc.architectures.mixtral import local_experts
from calc.spec import ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GraniteMoeConfig."""
    return granite_with(cfg, local_experts(cfg))


def granite_with(cfg: Config, experts: Moe) -> ModelSpec:
    """Granite's layers with these experts in each."""
    residual_scale = cfg.number("residual_multiplier", absent=1.0)
    return uniform(cfg, granite_attention(cfg), experts, max_seq_len=2048, residual_scale=residual_scale, **ends(cfg))
