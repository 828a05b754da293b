"""Apertus (Swiss AI 2025, arXiv:2509.14233): Llama's attention with a norm a head, and a plain MLP with xIELU."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import ACTIVATIONS
from calc.architectures.config import Config
from calc.architectures.llama import attention, rms_norm, uniform
from calc.architectures.rope import rope
from calc.spec import Mlp, ModelSpec, QkNorm

ROPE: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 12_000_000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
"""What ApertusConfig takes for an absent `rope_parameters`."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' ApertusConfig: as many key-value heads as heads, two matrices in the MLP."""
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    cfg.only("mlp_bias", False, None, why="matrices of this family's MLP have no bias")
    norm, bias = rms_norm(cfg, 1e-5), cfg.flag("attention_bias", absent=False)
    mixer = attention(
        cfg,
        d_head_null=None,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        rope=rope(cfg, theta=12_000_000.0, default=ROPE),
    )
    known: dict[str, Any] = {**ACTIVATIONS, "xielu": "xielu"}
    act = cfg.choice("hidden_act", among=known, absent="xielu")
    channel = Mlp(d_ff=cfg.size("intermediate_size"), activation=act)
    return uniform(cfg, mixer, channel, norm=norm, max_seq_len=65536)
