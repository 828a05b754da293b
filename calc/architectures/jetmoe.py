"""JetMoE (Shen et al. 2024, arXiv:2404.07413): experts for queries and outputs of attention as for the MLP."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import uniform
from calc.architectures.rope import rope
from calc.spec import Attention, HeadExperts, ModelSpec, Moe, Norm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' JetMoeConfig, whose layers' norms have an epsilon of their own whatever it says, and
    whose heads are as many as the key-value heads, once for each expert that a token visits."""
    n_experts, top_k = cfg.size("num_local_experts", absent=8), cfg.size("num_experts_per_tok", absent=2)
    kv_heads = cfg.size("num_key_value_heads", absent=16)
    heads = top_k * kv_heads
    cfg.only("num_attention_heads", heads, why="key-value heads times the experts that a token visits")
    mixer = Attention(
        n_heads=heads,
        n_kv_heads=kv_heads,
        d_head=cfg.size("head_dim", absent=128),
        out_bias=True,
        rope=rope(cfg),
        experts=HeadExperts(n_experts=n_experts, top_k=top_k),
    )
    channel = Moe(
        n_experts=n_experts,
        top_k=top_k,
        d_expert=cfg.size("intermediate_size"),
        activation=activation(cfg, "activation_function", absent="silu"),
        sum_bias=True,
    )
    model = uniform(cfg, mixer, channel, norm=Norm(eps=1e-6), tied=True, max_seq_len=4096)
    return model.model_copy(update={"final_norm": Norm(eps=cfg.number("rms_norm_eps", absent=1e-6))})
