"""Phi-3 and Phi-4 (arXiv:2404.14219, 2412.08905): Llama's block, q, k and v one matrix, gate and up another."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Phi3Config: as many key-value heads as heads, no window. No layer has biases."""
    cfg.only("attention_bias", False, why="this family's projections have no biases")
    mixer = attention(cfg, fused=True, window=cfg.size("sliding_window", absent=None, null=None))
    return uniform(cfg, mixer, gated_mlp(cfg, fused=True), max_seq_len=4096)
