"""Llama 1 to 3.2 (arXiv:2302.13971, 2307.09288, 2407.21783) and the many checkpoints that call themselves llama."""

from __future__ import annotations

from calc.architectures.common import activation, d_head, kv_heads
from calc.architectures.config import Config
from calc.spec.model import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm


def spec(cfg: Config) -> ModelSpec:
    """RMSNorm before each block, rotary positions, gated MLP; defaults as in transformers' LlamaConfig."""
    d_model = cfg.size("hidden_size")
    n_heads = cfg.size("num_attention_heads")
    bias = cfg.flag("attention_bias", absent=False)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=Attention(
            n_heads=n_heads,
            n_kv_heads=kv_heads(cfg, n_heads),
            d_head=d_head(cfg, d_model, n_heads),
            qkv_bias=bias,
            out_bias=bias,
        ),
        channel=Mlp(
            d_ff=cfg.size("intermediate_size"),
            gated=True,
            bias=cfg.flag("mlp_bias", absent=False),
            activation=activation(cfg, "hidden_act", absent="silu"),
        ),
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_position_embeddings", absent=2048),
        embedding=Embedding(),
        layers=(layer,),
        final_norm=Norm(),
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=False)),
    )
