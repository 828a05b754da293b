"""DBRX (Databricks 2024)."""

from __future__ import annotations

from calc.architectures.common import activation, kv_heads
from calc.architectures.config import Config
from calc.architectures.rope import rope
from calc.spec import Attention, LayerGroup, ModelSpec, Moe, Norm


def spec(cfg: Config) -> ModelSpec:
    """LayerNorm without bias before each block, grouped queries from one matrix, every MLP a mixture of experts."""
    d_model = cfg.size("d_model")
    cfg.under_own_name("d_model", "the width that the experts read")
    n_heads = cfg.size("n_heads")
    cfg.multiple("d_model", d_model, "n_heads", n_heads)
    cfg.only("tie_word_embeddings", False, why="DBRX ties nothing")
    attention = cfg.section("attn_config", absent=None, null=None) or Config({}, f"{cfg.where}attn_config.")
    experts = cfg.section("ffn_config")
    function = experts.section("ffn_act_fn", absent=None, null=None) or Config({})
    norm = Norm(kind="layernorm")
    layer = LayerGroup(
        count=cfg.layers("n_layers"),
        mixer=Attention(
            n_heads=n_heads,
            n_kv_heads=kv_heads(attention, n_heads, "kv_n_heads", absent=1),
            fused=True,
            rope=rope(cfg, theta=attention.number("rope_theta", absent=10_000.0)),
            clip=attention.number("clip_qkv", absent=None, null=None),
        ),
        channel=Moe(
            n_experts=experts.size("moe_num_experts"),
            top_k=experts.size("moe_top_k"),
            d_expert=experts.size("ffn_hidden_size"),
            activation=activation(function, "name", absent="silu"),
            renormalize=_renormalizes(experts),
            jitter=experts.number("moe_jitter_eps", absent=None, null=None),  # 0 multiplies with ones
        ),
        norm=norm,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_seq_len", absent=2048),
        layers=(layer,),
        final_norm=norm,
    )


def _renormalizes(experts: Config) -> bool:
    """Whether the weights of a token's experts are divided by their sum; other norms than the sum are refused."""
    name = "moe_normalize_expert_weights"
    experts.only(name, 1.0, 1, None, why="weights are divided by their sum, or not at all")
    return experts.raw.get(name, 1.0) is not None
