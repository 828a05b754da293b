"""OLMoE (arXiv:2409.02060)."""

from __future__ import annotations

from calc.architectures.common import activation, no_own_d_head
from calc.architectures.config import Config
from calc.architectures.llama import uniform
from calc.architectures.olmo2 import normed_attention
from calc.spec import ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Llama's block with a norm on all queries and all keys of a token, and a mixture of experts in every layer."""
    no_own_d_head(cfg)
    experts = Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("intermediate_size"),
        activation=activation(cfg, "hidden_act", absent="silu"),
        renormalize=cfg.flag("norm_topk_prob", absent=False),
    )
    mixer = normed_attention(cfg, wide=False, clip=cfg.number("clip_qkv", absent=None, null=None))
    return uniform(cfg, mixer, experts, eps=1e-5, max_seq_len=4096)
