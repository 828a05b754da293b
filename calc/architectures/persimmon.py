"""Persimmon (Adept 2023): half of each head turning, queries and keys normed, and a plain MLP with a squared ReLU."""

from __future__ import annotations

from calc.architectures.common import activation, layer_norm, no_own_d_head
from calc.architectures.config import Config
from calc.architectures.llama import uniform
from calc.architectures.rope import rope
from calc.spec import Attention, Mlp, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' PersimmonConfig: one matrix for q, k and v, biases everywhere."""
    no_own_d_head(cfg)
    norm = layer_norm(cfg, "layer_norm_eps")
    mixer = Attention(
        n_heads=cfg.size("num_attention_heads"),
        qkv_bias=True,
        out_bias=True,
        fused=True,
        qk_norm=QkNorm(norm=norm) if cfg.flag("qk_layernorm", absent=True) else None,
        rope=rope(cfg, fraction=0.5),
    )
    act = activation(cfg, "hidden_act", absent="relu2")
    channel = Mlp(d_ff=cfg.size("intermediate_size"), bias=True, activation=act)
    return uniform(cfg, mixer, channel, norm=norm, max_seq_len=16384)
