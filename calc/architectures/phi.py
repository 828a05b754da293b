"""Phi-1, Phi-1.5 and Phi-2 (arXiv:2306.11644, 2309.05463)."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import attention
from calc.spec.model import Head, LayerGroup, Mlp, ModelSpec, Norm, QkNorm

LAYER_NORM = Norm(kind="layernorm", bias=True)


def spec(cfg: Config) -> ModelSpec:
    """Attention and a plain MLP after one LayerNorm; rotary positions; biases everywhere, in the head too."""
    normed = cfg.flag("qk_layernorm", absent=False)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=attention(cfg, qkv_bias=True, out_bias=True, qk_norm=QkNorm(norm=LAYER_NORM) if normed else None),
        channel=Mlp(
            d_ff=cfg.size("intermediate_size"), bias=True, activation=activation(cfg, "hidden_act", absent="gelu_new")
        ),
        norm=LAYER_NORM,
        placement="parallel",
    )
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_position_embeddings", absent=2048),
        layers=(layer,),
        final_norm=LAYER_NORM,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=False), bias=True),
    )
