"""ERNIE 4.5 0.3B (Baidu 2025): Llama's block with rotary positions of neighbouring pairs."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.architectures.rope import rope
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Ernie4_5Config: 2 key-value heads, heads 128 wide, tied; one flag for all biases."""
    bias = cfg.flag("use_bias", absent=False, null=False)
    turning = rope(cfg, theta=500_000.0, interleaved=True)
    mixer = attention(cfg, kv_absent=2, d_head_absent=128, d_head_null=None, qkv_bias=bias, out_bias=bias, rope=turning)
    return uniform(cfg, mixer, gated_mlp(cfg, bias=bias), eps=1e-5, max_seq_len=131072, tied=True)
