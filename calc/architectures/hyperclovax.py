"""HyperCLOVA X Think (NAVER Cloud 2025, arXiv:2506.22403): Granite's multipliers, a norm on either side of a block."""

from __future__ import annotations

from calc.architectures.common import d_head
from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' HyperCLOVAXConfig. Logits are multiplied, where Granite's are divided."""
    width, n_heads = cfg.size("hidden_size"), cfg.size("num_attention_heads")
    cfg.multiple("hidden_size", width, "num_attention_heads", n_heads)
    usual = (d_head(cfg, width, n_heads, absent=None, null=None) or width // n_heads) ** -0.5
    bias = cfg.flag("attention_bias", absent=False)
    scale = cfg.number("attention_multiplier", absent=usual, null=usual)
    mixer = attention(cfg, d_head_null=None, qkv_bias=bias, out_bias=bias, scale=scale)
    return uniform(
        cfg,
        mixer,
        gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False)),
        placement="sandwich" if cfg.flag("use_post_norm", absent=True) else "pre",
        residual_scale=cfg.number("residual_multiplier", absent=1.0),
        embed_scale=cfg.number("embedding_multiplier", absent=1.0),
        logit_scale=cfg.number("logits_scaling", absent=1.0),
        max_seq_len=2048,
    )
