"""Seed-OSS (ByteDance Seed 2025): Llama's block with biases on queries, keys and values."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' SeedOssConfig: 8 key-value heads, heads 128 wide; what attention puts out has a flag
    of its own for its bias."""
    mixer = attention(
        cfg,
        kv_absent=8,
        d_head_absent=128,
        d_head_null=None,
        qkv_bias=cfg.flag("attention_bias", absent=True),
        out_bias=cfg.flag("attention_out_bias", absent=False),
    )
    channel = gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False))
    return uniform(cfg, mixer, channel, residual_dropout=True, max_seq_len=524288)
