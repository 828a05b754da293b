"""Qwen3 (arXiv:2505.09388): Llama's block with norms on each head's queries and keys, and d_head of its own."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, rms_norm
from calc.architectures.qwen2 import windowed
from calc.spec import ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3Config: heads 128 wide, 32 key-value heads where the keys are absent."""
    bias = cfg.flag("attention_bias", absent=False)
    norm = QkNorm(norm=rms_norm(cfg))
    mixer = attention(cfg, kv_absent=32, d_head_absent=128, qkv_bias=bias, out_bias=bias, qk_norm=norm)
    return windowed(cfg, mixer, gated_mlp(cfg))
