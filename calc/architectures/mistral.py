"""Mistral (arXiv:2310.06825): Llama's block with one sliding window for all layers."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MistralConfig: 8 key-value heads and a window of 4096 where the keys are absent;
    null key-value heads mean as many as heads, a null window means none."""
    window = cfg.size("sliding_window", absent=4096, null=None)
    mixer = attention(cfg, kv_absent=8, d_head_null=None, window=window)
    return uniform(cfg, mixer, gated_mlp(cfg), max_seq_len=131072)
