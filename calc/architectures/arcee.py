"""AFM (Arcee AI 2025): Llama's attention, and Nemotron's MLP with a squared ReLU."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, uniform
from calc.architectures.nemotron import squared_relu_mlp
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' ArceeConfig: as many key-value heads as heads."""
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(cfg, d_head_null=None, qkv_bias=bias, out_bias=bias)
    return uniform(cfg, mixer, squared_relu_mlp(cfg), eps=1e-5, max_seq_len=4096)
