"""DeepSeek-V2 and V2-Lite (arXiv:2405.04434): latent attention, and a mixture of many small experts."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import (
    dense_then_moe,
    expert_groups,
    latent_attention,
    latent_decoder,
    routed_experts,
)
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' DeepseekV2Config: queries from a latent of 1536 unless `q_lora_rank` is null, no
    dense layers before the experts, two shared experts. Scores are a softmax whose chosen values are used as they are.
    """
    cfg.only("mlp_bias", False, why="dense and shared blocks would have biases and routed experts none")
    grouped = cfg.choice("topk_method", among={"greedy": False, "group_limited_greedy": True}, absent=False, null=False)
    groups = expert_groups(cfg, by="best")
    experts = routed_experts(
        cfg, shared=2, scoring="softmax", correction=False, renormalize=False, groups=groups if grouped else None
    )
    mixer = latent_attention(cfg, q_rank_absent=1536, interleaved=True)
    kinds = dense_then_moe(cfg, cfg.layers("num_hidden_layers"), first=0)
    return latent_decoder(cfg, mixer, kinds, experts, max_seq_len=2048)
