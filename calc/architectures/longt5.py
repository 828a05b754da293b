"""LongT5 (Guo et al. 2022, arXiv:2112.07916): T5 whose encoder attends within blocks, and perhaps to sums of tokens."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.t5 import (
    encoder_alone,
    encoder_decoder,
    feed_forward,
    layer,
    relative_attention,
    rms,
    vocabulary_head,
)
from calc.errors import Refused
from calc.spec import Attention, BlockAttention, LayerGroup, ModelSpec

KINDS = {"local": False, "transient-global": True}
"""`encoder_attention_type` -> whether there are sums of tokens."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' LongT5Config: tokens see 127 others on both sides; sums are of 16 tokens."""
    classes = {"LongT5ForConditionalGeneration": "lm", "LongT5Model": "none", "LongT5EncoderModel": "encoder"}
    kind = cfg.architecture(classes, usual="LongT5ForConditionalGeneration")
    n_layers = cfg.layers("num_layers")
    plain, channel, norm = relative_attention(cfg, shared=True), feed_forward(cfg, absent="relu"), rms(cfg)
    encoder = layer(plain, channel, norm, n_layers, False).model_copy(update={"mixer": _in_blocks(cfg, plain)})
    if kind == "encoder":
        cfg.only("is_decoder", False, None, why="this class would build a decoder's layers instead")
        return encoder_alone(cfg, (encoder,))
    n_decoder = cfg.size("num_decoder_layers", absent=None, null=None)
    if n_decoder is None:
        cfg.under_own_name("num_layers", "num_decoder_layers")
        n_decoder = n_layers
    decoder: tuple[LayerGroup, ...] = (layer(plain, channel, norm, n_decoder, True),)
    return encoder_decoder(cfg, (encoder,), decoder, vocabulary_head(cfg) if kind == "lm" else None)


def _in_blocks(cfg: Config, plain: Attention) -> BlockAttention:
    """The encoder's attention, with as many heads and buckets as the decoder's."""
    sums = cfg.choice("encoder_attention_type", among=KINDS, absent=False)
    radius = cfg.size("local_radius", absent=127)
    assert plain.d_head is not None
    assert plain.buckets is not None
    if plain.d_head == 1:
        raise Refused(f"{cfg.where}d_kv", "two at least: PyTorch multiplies heads of one number otherwise", 1)
    return BlockAttention(
        n_heads=plain.n_heads,
        d_head=plain.d_head,
        block=radius + 1,
        summary=_summary(cfg) if sums else None,
        norm=rms(cfg),
        buckets=plain.buckets,
    )


def _summary(cfg: Config) -> int:
    """How many tokens are summed up."""
    tokens = cfg.size("global_block_size", absent=16)
    if tokens == 1:
        raise Refused(f"{cfg.where}global_block_size", "two tokens at least, whose sum is one of several", 1)
    return tokens
