"""LFM2's mixtures of experts (Liquid AI 2025)."""

from __future__ import annotations

from calc.architectures.config import REFUSE, Config
from calc.architectures.lfm2 import hybrid, mixer_kinds
from calc.spec import Mlp, ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Lfm2MoeConfig: the first two layers dense, then 4 experts a token, by sigmoid scores
    that a buffer corrects for the choice."""
    n_layers = cfg.layers("num_hidden_layers")
    n_dense = cfg.count("num_dense_layers", absent=2)
    kinds = ["dense" if i < n_dense else "moe" for i in range(n_layers)]
    dense = Mlp(d_ff=cfg.size("intermediate_size"), gated=True, activation="silu") if n_dense else None
    experts = Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok", absent=4),
        d_expert=cfg.size("moe_intermediate_size"),
        scoring="sigmoid",
        correction=cfg.flag("use_expert_bias", absent=True),
        renormalize=cfg.flag("norm_topk_prob", absent=True),
        scale=cfg.number("routed_scaling_factor", absent=1.0),
    )
    return hybrid(cfg, mixer_kinds(cfg, n_layers, absent=REFUSE) or (), kinds, {"dense": dense, "moe": experts})
