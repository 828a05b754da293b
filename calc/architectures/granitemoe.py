"""Granite's mixtures of experts (IBM 2024): Granite's attention, routed experts in every layer."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.granite import granite_attention
from calc.architectures.llama import uniform
from calc.architectures.mixtral import local_experts
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GraniteMoeConfig."""
    return uniform(cfg, granite_attention(cfg), local_experts(cfg), max_seq_len=2048)
