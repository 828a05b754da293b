"""OLMo 2 (arXiv:2501.00656)."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, rms_norm, uniform
from calc.spec import Attention, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Llama's sizes, with RMSNorm on each block's output and on all queries and all keys of a token."""
    norm = rms_norm(cfg, 1e-5, wide=True)
    return uniform(cfg, normed_attention(cfg), gated_mlp(cfg), placement="output", norm=norm, max_seq_len=2048)


def normed_attention(cfg: Config, *, wide: bool = True, **structure: Any) -> Attention:
    """Attention with one norm over all query heads together and one over all key heads.

    wide: as of the norms; structure: every other field of Attention.
    """
    bias, norm = cfg.flag("attention_bias", absent=False), rms_norm(cfg, 1e-5, wide=wide)
    return attention(cfg, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm(norm=norm, span="all"), **structure)
