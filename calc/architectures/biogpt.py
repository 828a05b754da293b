"""BioGPT (arXiv:2210.10341), and the decoder of fairseq's language models, which XGLM has too."""

from __future__ import annotations

from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.spec import Activation, Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec

POSITION_OFFSET = 2
"""Rows of the position table that stand before position 0."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' BioGptConfig. `layer_norm_eps` is not read there: its norms take 1e-5."""
    n_positions = cfg.size("max_position_embeddings", absent=1024)
    d_model = cfg.size("hidden_size")
    return fairseq_decoder(
        cfg,
        d_model=d_model,
        n_layers=cfg.layers("num_hidden_layers"),
        n_heads=cfg.size("num_attention_heads"),
        d_ff=cfg.size("intermediate_size"),
        activation=activation(cfg, "hidden_act", absent="gelu"),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions + POSITION_OFFSET, position_offset=POSITION_OFFSET),
    )


def fairseq_decoder(
    cfg: Config,
    *,
    d_model: int,
    n_layers: int,
    n_heads: int,
    d_ff: int,
    activation: Activation,
    max_seq_len: int,
    embedding: Embedding,
) -> ModelSpec:
    """LayerNorm before each block and at the end, biases everywhere; tokens grow by sqrt(d_model), unless
    `scale_embedding` says not; the head is tied."""
    cfg.only("sliding_window", None, why="no layer of this family has a window")
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    layer = LayerGroup(
        count=n_layers,
        mixer=Attention(n_heads=n_heads, qkv_bias=True, out_bias=True, position="none", softmax="model"),
        channel=Mlp(d_ff=d_ff, bias=True, activation=activation),
        norm=LAYER_NORM,
        residual_dropout=True,
    )
    scale = d_model**0.5 if cfg.flag("scale_embedding", absent=True) else 1.0
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=max_seq_len,
        embedding=embedding.model_copy(update={"scale": scale}),
        layers=(layer,),
        final_norm=LAYER_NORM,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=True)),
    )
