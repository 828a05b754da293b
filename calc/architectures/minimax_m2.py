"""MiniMax-M2 (MiniMax 2025): grouped-query attention with a norm over all heads, experts in every layer."""

from __future__ import annotations

from calc.architectures.common import activation, without_further_tokens
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, rms_norm, uniform
from calc.architectures.mixtral import jitter
from calc.spec import ModelSpec, Moe, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MiniMaxM2Config: 8 key-value heads, heads 128 wide, `rotary_dim` of it rotated."""
    cfg.only("use_qk_norm", True, why="queries and keys of this family are always normed")
    cfg.only("qk_norm_type", "per_layer", why="the norm spans all heads")
    cfg.only("shared_intermediate_size", 0, None, why="no implementation has shared experts here")
    if cfg.flag("use_mtp", absent=True):
        without_further_tokens(cfg, "num_mtp_modules")
    norm = rms_norm(cfg)
    d_head = cfg.size("head_dim", absent=128)
    rotary = cfg.size("rotary_dim", absent=None, null=None)
    mixer = attention(
        cfg,
        kv_absent=8,
        kv_null=REFUSE,
        d_head_absent=128,
        qk_norm=QkNorm(norm=norm, span="all"),
        theta=5_000_000.0,
        fraction=1.0 if rotary is None else rotary / d_head,
    )
    channel = Moe(
        n_experts=cfg.size("num_local_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("intermediate_size"),
        activation=activation(cfg, "hidden_act", absent="silu"),
        scoring="sigmoid",
        correction=True,
        jitter=jitter(cfg),
    )
    return uniform(cfg, mixer, channel, norm=norm, max_seq_len=196608)
