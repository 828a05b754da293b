"""Jais 2 (MBZUAI 2025): Llama's attention with biases, LayerNorm, and a plain MLP with a squared ReLU."""

from __future__ import annotations

from calc.architectures.common import layer_norm
from calc.architectures.config import Config
from calc.architectures.llama import attention, uniform
from calc.architectures.nemotron import squared_relu_mlp
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Jais2Config: as many key-value heads as heads, biases everywhere."""
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    bias = cfg.flag("attention_bias", absent=True)
    mixer = attention(cfg, d_head_null=None, qkv_bias=bias, out_bias=bias)
    norm = layer_norm(cfg, "layer_norm_eps")
    return uniform(cfg, mixer, squared_relu_mlp(cfg, bias=True), norm=norm, max_seq_len=8192)
