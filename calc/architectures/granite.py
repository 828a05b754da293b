"""Granite (IBM 2024): Llama's block with constant multipliers on embedding, scores, residuals and logits."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.errors import Refused
from calc.spec import Attention, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GraniteConfig. The multipliers change no size and no count."""
    channel = gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False))
    return uniform(
        cfg,
        granite_attention(cfg),
        channel,
        max_seq_len=2048,
        residual_scale=cfg.number("residual_multiplier", absent=1.0),
        **ends(cfg),
    )


def ends(cfg: Config) -> dict[str, Any]:
    """The multipliers of the embedded tokens and of the logits."""
    scaling = cfg.number("logits_scaling", absent=1.0)
    if scaling == 0:
        raise Refused(f"{cfg.where}logits_scaling", "a number other than 0, since logits are divided by it", scaling)
    return {"embed_scale": cfg.number("embedding_multiplier", absent=1.0), "logit_scale": 1 / scaling}


def granite_attention(cfg: Config, *, kv_absent: int | None = None) -> Attention:
    """One flag for the biases of all four projections. kv_absent: key-value heads where the key is absent; None: as
    many as heads."""
    bias = cfg.flag("attention_bias", absent=False)
    return attention(
        cfg, kv_absent=kv_absent, qkv_bias=bias, out_bias=bias, scale=cfg.number("attention_multiplier", absent=1.0)
    )
