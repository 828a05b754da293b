"""DeepSeek-V3.2 (arXiv:2512.02556): DeepSeek-V3 with an indexer in every layer that chooses the tokens to attend to."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import mlp_kinds
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import (
    dense_then_moe,
    expert_groups,
    latent_attention,
    latent_decoder,
    routed_experts,
)
from calc.spec import Indexer, Mla, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' DeepseekV32Config: an indexer of 64 heads, 128 wide, that chooses 2048 tokens."""
    mixer = indexed_attention(cfg, n_heads=64, interleaved=False)
    kinds = mlp_kinds(cfg, dense_then_moe(cfg, cfg.layers("num_hidden_layers"), first=3))
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg, 8, 4), scale=2.5)
    return latent_decoder(cfg, mixer, kinds, experts, max_seq_len=163840)


def indexed_attention(
    cfg: Config, *, n_heads: int, interleaved: bool, pairs: bool = True, index: dict[str, Any] | None = None, **own: Any
) -> Mla:
    """Latent attention with an indexer, whose keys pair their rotary values as `interleaved` says; pairs: those of
    attention itself.

    n_heads: of the indexer, where index_n_heads is absent. index, own: further fields of Indexer, and of Mla.
    """
    cfg.only("mlp_bias", False, why="no block of this family has biases")
    n_layers = cfg.layers("num_hidden_layers")
    cfg.words("layer_types", among=("indexed_attention",), length=n_layers, absent=None, null=None)
    indexer = Indexer(
        n_heads=cfg.size("index_n_heads", absent=n_heads),
        d_head=cfg.size("index_head_dim", absent=128),
        interleaved=interleaved,
        **(index or {}),
    )
    own |= {"indexer": indexer, "top_k": cfg.size("index_topk", absent=2048)}
    if "q_rank" not in own:
        own["q_rank"] = cfg.size("q_lora_rank")
    return latent_attention(cfg, q_rank_absent=None, interleaved=pairs, **own)
