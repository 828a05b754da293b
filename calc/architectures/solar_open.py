"""Solar Open (Upstage 2025): GLM-4.5's experts in every layer."""

from __future__ import annotations

from calc.architectures.config import REFUSE, Config
from calc.architectures.deepseek_v3 import expert_groups, routed_experts
from calc.architectures.glm4_moe_lite import all_turns
from calc.architectures.llama import attention, uniform
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' SolarOpenConfig: 8 key-value heads, heads 128 wide, one shared expert. Biases are on
    queries, keys and values only."""
    all_turns(cfg)
    cfg.only("first_k_dense_replace", 0, None, why="all layers of this family have experts")
    cfg.only("use_qk_norm", False, None, why="transformers norms no queries and keys of this family")
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(cfg, kv_absent=8, kv_null=REFUSE, d_head_absent=128, qkv_bias=bias, theta=1_000_000.0)
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg))
    return uniform(cfg, mixer, experts, eps=1e-5, max_seq_len=131072)
