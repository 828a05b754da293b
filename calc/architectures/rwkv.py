"""RWKV-4 (Peng et al. 2023, arXiv:2305.13048), as transformers has it."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.spec import Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm, Rwkv4


def spec(cfg: Config) -> ModelSpec:
    """A norm on the embedding, whose epsilon is the layers'; that of the last norm is fixed. Halving the stream every
    `rescale_every` layers, which the class undoes in its weights, is left out."""
    d_model = cfg.size("hidden_size")
    width = cfg.size("attention_hidden_size", absent=d_model, null=d_model)
    d_ff = cfg.size("intermediate_size", absent=4 * d_model, null=4 * d_model)
    norm = Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_epsilon", absent=1e-5))
    channel = Mlp(d_ff=d_ff, activation="relu2", shift=True, receptance=True)
    layer = LayerGroup(count=cfg.layers("num_hidden_layers"), mixer=Rwkv4(d_inner=width), channel=channel, norm=norm)
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("context_length", absent=1024),
        embedding=Embedding(norm=norm),
        layers=(layer,),
        final_norm=Norm(kind="layernorm", bias=True),
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=False)),
    )
