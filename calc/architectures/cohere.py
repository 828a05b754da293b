"""Command R and R+ (Cohere 2024)."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.spec import ModelSpec, Norm, QkNorm

LAYER_NORM = Norm(kind="layernorm")


def spec(cfg: Config) -> ModelSpec:
    """Attention and gated MLP side by side after one LayerNorm without bias; R+ also norms queries and keys."""
    bias = cfg.flag("attention_bias", absent=False)
    qk_norm = QkNorm(norm=LAYER_NORM, span="heads") if cfg.flag("use_qk_norm", absent=False, null=False) else None
    mixer = attention(cfg, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm)
    return uniform(cfg, mixer, gated_mlp(cfg), norm=LAYER_NORM, placement="parallel", max_seq_len=8192, tied=True)
