"""MPT (MosaicML 2023)."""

from __future__ import annotations

from calc.architectures.common import layer_norm
from calc.architectures.config import Config
from calc.spec import Attention, Head, LayerGroup, Mlp, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """ALiBi, one matrix for q, k and v, an MLP of 4 * d_model, and no bias anywhere, the LayerNorms included.

    transformers builds this whatever the config says; the original code obeys its keys. Where the two would differ
    the config is refused.
    """
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    d_model = cfg.size("d_model")
    n_heads = cfg.size("n_heads")
    cfg.multiple("d_model", d_model, "n_heads", n_heads)
    cfg.only("expansion_ratio", 4, why="transformers' MPT has no other")
    cfg.only("no_bias", True, why="transformers' MPT has no biases")
    cfg.only("norm_type", "low_precision_layernorm", "layernorm", why="transformers' MPT has no other")
    attention = cfg.section("attn_config", absent=None, null=None) or Config({})
    attention.only("attn_type", "multihead_attention", why="transformers' MPT has no other")
    attention.only("alibi", True, why="transformers' MPT has no other positions")
    attention.only("alibi_bias_max", 8, why="transformers' MPT has no other")
    attention.only("rope", False, why="transformers' MPT has ALiBi only")
    attention.only("qk_ln", False, why="transformers' MPT has no query and key norms")
    attention.only("qk_gn", False, why="transformers' MPT has no query and key norms")
    attention.only("sliding_window_size", -1, why="transformers' MPT has no windows")
    attention.only("prefix_lm", False, why="only causal models are described")
    channel = cfg.section("ffn_config", absent=None, null=None) or Config({})
    channel.only("ffn_type", "mptmlp", why="transformers' MPT has no other")
    cfg.only("logit_scale", None, why="transformers' MPT does not scale its logits")
    norm = layer_norm(cfg, bias=False)
    mixer = Attention(
        n_heads=n_heads,
        fused=True,
        position="alibi",
        clip=attention.number("clip_qkv", absent=None, null=None) or None,
        scale=attention.number("softmax_scale", absent=None, null=None),
    )
    layer = LayerGroup(
        count=cfg.layers("n_layers"),
        mixer=mixer,
        channel=Mlp(),
        norm=norm,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_seq_len", absent=2048),
        layers=(layer,),
        final_norm=norm,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=True)),
    )
