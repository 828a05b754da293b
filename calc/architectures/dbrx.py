"""DBRX (Databricks 2024)."""

from __future__ import annotations

from calc.architectures.common import activation, kv_heads
from calc.architectures.config import Config
from calc.spec import Attention, LayerGroup, ModelSpec, Moe, Norm

LAYER_NORM = Norm(kind="layernorm")


def spec(cfg: Config) -> ModelSpec:
    """LayerNorm without bias before each block, grouped queries from one matrix, every MLP a mixture of experts."""
    d_model = cfg.size("d_model", "hidden_size")
    n_heads = cfg.size("n_heads", "num_attention_heads")
    cfg.multiple("d_model", d_model, "n_heads", n_heads)
    cfg.only("tie_word_embeddings", False, why="DBRX ties nothing")
    attention = cfg.section("attn_config", absent=None, null=None) or Config({}, f"{cfg.where}attn_config.")
    experts = cfg.section("ffn_config")
    function = experts.section("ffn_act_fn", absent=None, null=None) or Config({})
    layer = LayerGroup(
        count=cfg.layers("n_layers", "num_hidden_layers"),
        mixer=Attention(n_heads=n_heads, n_kv_heads=kv_heads(attention, n_heads, "kv_n_heads", absent=1), fused=True),
        channel=Moe(
            n_experts=experts.size("moe_num_experts"),
            top_k=experts.size("moe_top_k"),
            d_expert=experts.size("ffn_hidden_size"),
            activation=activation(function, "name", absent="silu"),
        ),
        norm=LAYER_NORM,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_seq_len", "max_position_embeddings", absent=2048),
        layers=(layer,),
        final_norm=LAYER_NORM,
    )
