"""BLOOM (arXiv:2211.05100)."""

from __future__ import annotations

from calc.architectures.common import layer_norm
from calc.architectures.config import Config
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Residual


def spec(cfg: Config) -> ModelSpec:
    """GPT-2's block with ALiBi instead of positions, and a LayerNorm on the embedded tokens; the MLP is 4 * d_model.

    slow_but_exact and pretraining_tp change how a product is cut, not what it gives.
    """
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    d_model = width(cfg)
    n_heads = cfg.size("n_head")
    cfg.multiple("hidden_size", d_model, "n_head", n_heads)
    norm = layer_norm(cfg)
    normed = cfg.flag("apply_residual_connection_post_layernorm", absent=False)
    layer = LayerGroup(
        count=cfg.layers("n_layer"),
        mixer=Attention(n_heads=n_heads, qkv_bias=True, out_bias=True, fused=True, position="alibi"),
        channel=Mlp(bias=True, activation="gelu_tanh"),
        norm=norm,
        residual=Residual(normed=True) if normed else None,
        residual_dropout=True,
        outer_dropout="none",
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("seq_length", absent=None, null=None),
        embedding=Embedding(norm=norm),
        layers=(layer,),
        final_norm=norm,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=True)),
    )


def width(cfg: Config) -> int:
    """`hidden_size`, or `n_embed`, which wins where a config carries both."""
    older = cfg.size("n_embed", absent=None, null=None)
    if older is None:
        return cfg.size("hidden_size")
    cfg.size("hidden_size", absent=None)
    return older
