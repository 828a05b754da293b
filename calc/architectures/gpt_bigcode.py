"""SantaCoder and StarCoder (arXiv:2301.03988, 2305.06161)."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm

LAYER_NORM = Norm(kind="layernorm", bias=True)


def spec(cfg: Config) -> ModelSpec:
    """GPT-2 with one key-value head for all queries, unless `multi_query` is false."""
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    d_model = cfg.size("n_embd", "hidden_size")
    n_heads = cfg.size("n_head", "num_attention_heads")
    cfg.multiple("n_embd", d_model, "n_head", n_heads)
    cfg.only("add_cross_attention", False, why="an encoder's keys and values are not described by this config")
    n_positions = cfg.size("n_positions", "max_position_embeddings", absent=1024)
    layer = LayerGroup(
        count=cfg.layers("n_layer", "num_hidden_layers"),
        mixer=Attention(
            n_heads=n_heads,
            n_kv_heads=1 if cfg.flag("multi_query", absent=True) else None,
            qkv_bias=True,
            out_bias=True,
            fused=True,
            position="none",
        ),
        channel=Mlp(
            d_ff=cfg.size("n_inner", absent=None, null=None),
            bias=True,
            activation=activation(cfg, "activation_function", absent="gelu_tanh"),
        ),
        norm=LAYER_NORM,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions),
        layers=(layer,),
        final_norm=LAYER_NORM,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=True)),
    )
