"""GPT-J (EleutherAI 2021)."""

from __future__ import annotations

from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.spec import Attention, Head, LayerGroup, Mlp, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Attention without biases and MLP with, side by side after one LayerNorm; rotary positions; a head with a bias."""
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    d_model = cfg.size("n_embd", "hidden_size")
    n_heads = cfg.size("n_head", "num_attention_heads")
    cfg.multiple("n_embd", d_model, "n_head", n_heads)
    layer = LayerGroup(
        count=cfg.layers("n_layer", "num_hidden_layers"),
        mixer=Attention(n_heads=n_heads),
        channel=Mlp(
            d_ff=cfg.size("n_inner", absent=None, null=None),
            bias=True,
            activation=activation(cfg, "activation_function", absent="gelu_new"),
        ),
        norm=LAYER_NORM,
        placement="parallel",
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("n_positions", "max_position_embeddings", absent=2048),
        layers=(layer,),
        final_norm=LAYER_NORM,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=False), bias=True),
    )
