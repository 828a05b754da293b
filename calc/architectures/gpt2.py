"""GPT-2 (Radford et al. 2019) and GPT-3 (arXiv:2005.14165), which has its shape."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.spec import Activation, Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm


def spec(cfg: Config) -> ModelSpec:
    """LayerNorm before each block, learned positions, one matrix for q, k and v, biases everywhere, head tied."""
    return gpt(cfg, n_kv_heads=None, act="gelu_new")


def gpt(cfg: Config, *, n_kv_heads: int | None, act: Activation) -> ModelSpec:
    """A model of GPT-2's shape. act: what an absent activation_function means."""
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    d_model = cfg.size("n_embd", "hidden_size")
    n_heads = cfg.size("n_head", "num_attention_heads")
    cfg.multiple("n_embd", d_model, "n_head", n_heads)
    cfg.only("add_cross_attention", False, why="an encoder's keys and values are not described by this config")
    n_positions = cfg.size("n_positions", "max_position_embeddings", absent=1024)
    norm = Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_epsilon", absent=1e-5))
    layer = LayerGroup(
        count=cfg.layers("n_layer", "num_hidden_layers"),
        mixer=Attention(
            n_heads=n_heads, n_kv_heads=n_kv_heads, qkv_bias=True, out_bias=True, fused=True, position="none"
        ),
        channel=Mlp(
            d_ff=cfg.size("n_inner", absent=None, null=None),
            bias=True,
            activation=activation(cfg, "activation_function", absent=act),
        ),
        norm=norm,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions),
        layers=(layer,),
        final_norm=norm,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=True)),
    )
