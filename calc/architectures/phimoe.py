"""Phi-3.5-MoE (arXiv:2404.14219): Mixtral's layers with LayerNorm, and biases in attention and head where told."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, uniform
from calc.architectures.mixtral import local_experts
from calc.spec import ModelSpec, Norm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' PhimoeConfig: 8 key-value heads, no window, no biases where the keys are absent."""
    cfg.only("num_experts_per_tok", 2, why="this family's router picks a first and a second expert")
    bias = cfg.flag("attention_bias", absent=False)
    window = cfg.size("sliding_window", absent=None, null=None)
    mixer = attention(cfg, kv_absent=8, qkv_bias=bias, out_bias=bias, window=window)
    return uniform(
        cfg,
        mixer,
        local_experts(cfg),
        norm=Norm(kind="layernorm", bias=True),
        max_seq_len=131072,
        head_bias=cfg.flag("lm_head_bias", absent=False),
    )
