"""Falcon 1 and 2 (arXiv:2311.16867, 2407.14885): 7B, 40B, 180B, 11B and the RefinedWeb models."""

from __future__ import annotations

from calc.architectures.bloom import width
from calc.architectures.common import activation, kv_heads, layer_norm
from calc.architectures.config import Config
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import Attention, Head, LayerGroup, Mlp, ModelSpec, Placement


def spec(cfg: Config) -> ModelSpec:
    """One matrix for q, k and v, no biases unless `bias`, rotary positions unless `alibi`.

    The cache holds the grouped keys and values; transformers stores the new architecture's broadcast to all heads.
    """
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    d_model = width(cfg)
    n_heads = cfg.size("num_attention_heads")
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    grouped = cfg.flag("new_decoder_architecture", absent=False, null=False)
    bias = cfg.flag("bias", absent=False, null=False)
    norm = layer_norm(cfg)
    alibi = cfg.flag("alibi", absent=False, null=False)
    n_kv_heads = _n_kv_heads(cfg, n_heads, grouped)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=Attention(
            n_heads=n_heads,
            n_kv_heads=n_kv_heads,
            qkv_bias=bias,
            out_bias=bias,
            fused=True,
            softmax="model",
            position="alibi" if alibi else "rope",
            alibi_scaled=alibi,
            rope=rope(cfg),
            # transformers repeats keys in the new architecture alone.
            repeated=grouped or n_kv_heads in (None, n_heads),
        ),
        channel=Mlp(
            d_ff=cfg.size("ffn_hidden_size", absent=None, null=None),
            bias=bias,
            activation=activation(cfg, "activation", absent="gelu"),
        ),
        norm=norm,
        placement=_placement(cfg, grouped),
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_position_embeddings", absent=2048),
        layers=(layer,),
        final_norm=norm,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=True)),
    )


def _n_kv_heads(cfg: Config, n_heads: int, grouped: bool) -> int | None:
    """num_kv_heads counts in the new architecture only; the old one has one key-value head or as many as queries."""
    n = kv_heads(cfg, n_heads, "num_kv_heads")
    multi_query = cfg.flag("multi_query", absent=True, null=False)
    if grouped:
        return n
    if not multi_query and n is not None:
        raise Refused(f"{cfg.where}num_kv_heads", f"{n_heads}, as many as query heads, or multi_query", n)
    return 1 if multi_query else None


def _placement(cfg: Config, grouped: bool) -> Placement:
    parallel = cfg.flag("parallel_attn", absent=True, null=False)
    n_norms = cfg.size("num_ln_in_parallel_attn", absent=None, null=None, limit=2)
    if grouped:
        cfg.only("parallel_attn", True, why="the new architecture is always parallel")
        return "parallel" if n_norms == 1 else "parallel-two-norms"
    if not parallel:
        return "pre"
    if n_norms == 2:
        raise Refused(f"{cfg.where}num_ln_in_parallel_attn", "1 or null (two norms are new_decoder_architecture)", 2)
    return "parallel"
