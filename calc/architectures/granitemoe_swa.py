"""Granite's mixtures of experts with windows (IBM 2026): Granite with windows, experts in every layer."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.granite_swa import sliding_granite
from calc.architectures.granitemoeshared import shared_experts
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GraniteMoeSWAConfig: as many key-value heads as heads, no MLP beside the experts."""
    return sliding_granite(cfg, shared_experts(cfg), kv_absent=None, eps=1e-6, max_seq_len=2048, tied=False)
