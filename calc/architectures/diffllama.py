"""DiffLlama (transformers 2025): Llama's block with differential attention (Ye et al. 2024, arXiv:2410.05258)."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, rms_norm, uniform
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' DiffLlamaConfig: as many key-value heads as heads, of which there must be pairs."""
    cfg.only("attention_dropout", 0.0, 0, why="the class refuses it, since two softmaxes share no mask")
    norm, bias = rms_norm(cfg, 1e-5), cfg.flag("attention_bias", absent=False)
    differential = norm.model_copy(update={"affine": False})
    mixer = attention(cfg, d_head_null=None, qkv_bias=bias, out_bias=bias, differential=differential)
    return uniform(cfg, mixer, gated_mlp(cfg), norm=norm, max_seq_len=2048)
