"""Gemma (arXiv:2403.08295): Llama's block with a GELU gate and heads 256 wide, embedding and head one table."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import activation
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, rms_norm, uniform
from calc.spec import Attention, Mlp, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GemmaConfig: 16 key-value heads, tied. It reads `gelu` as its tanh approximation."""
    act = activation(cfg, "hidden_act", absent="gelu_tanh")
    channel = Mlp(d_ff=cfg.size("intermediate_size"), gated=True, activation="gelu_tanh" if act == "gelu" else act)
    return uniform(
        cfg,
        gemma_attention(cfg, kv_absent=16),
        channel,
        norm=rms_norm(cfg, unit_offset=True),
        max_seq_len=8192,
        tied=True,
        embed_scale=cfg.size("hidden_size") ** 0.5,
    )


def gemma_attention(cfg: Config, *, kv_absent: int, **rest: Any) -> Attention:
    """Attention with heads 256 wide where head_dim is absent, and one flag for all biases. It must be causal."""
    cfg.only("use_bidirectional_attention", None, False, why="tokens that see later ones are not described")
    bias = cfg.flag("attention_bias", absent=False)
    return attention(cfg, kv_absent=kv_absent, kv_null=REFUSE, d_head_absent=256, qkv_bias=bias, out_bias=bias, **rest)
