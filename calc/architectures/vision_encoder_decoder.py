"""An encoder of pictures and a decoder of text that reads it, each by its own config: TrOCR (Li et al. 2021,
arXiv:2109.10282), which is ViT or DeiT with BART's decoder."""

from __future__ import annotations

from typing import Any

from calc.architectures import vit
from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Stack, Tower

ENCODERS = {"vit": 1, "deit": 2}
"""Encoders that are described -> their learned vectors beside the patches."""
OFFSET = 2
"""Rows of the position table before the first position."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' ViTConfig, DeiTConfig and TrOCRConfig. The encoder's pooler runs, and nothing reads
    what it gives."""
    cfg.architecture({"VisionEncoderDecoderModel": True}, usual="VisionEncoderDecoderModel")
    source, target = cfg.section("encoder"), cfg.section("decoder")
    target.choice("model_type", among={"trocr": True})
    encoder, d_model = _encoder(source), target.size("d_model")
    width = target.size("cross_attention_hidden_size", absent=d_model, null=d_model)
    if width != encoder.d_model:
        expected = f"encoder's hidden_size = {encoder.d_model}, since a layer between the two is not described"
        raise Refused("decoder.cross_attention_hidden_size", expected, width)
    n_positions = target.size("max_position_embeddings", absent=512)
    return ModelSpec(
        d_model=d_model,
        vocab_size=target.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=_embedding(target, d_model, n_positions),
        layers=(_layer(target, d_model),),
        final_norm=None,
        head=Head(tied=target.flag("tie_word_embeddings", absent=True), wide_loss=False),
        encoder=encoder,
    )


def _encoder(cfg: Config) -> Tower:
    n_special = cfg.choice("model_type", among=ENCODERS, absent=1)
    pooler = vit.pooler(cfg).model_copy(update={"unread": True})
    made = vit.encoder(cfg, vit.pictures(cfg, n_special=n_special), (pooler,))
    own: dict[str, Any] = {name: getattr(made, name) for name in Stack.model_fields}
    return Tower(name="encoder", **own)


def _embedding(cfg: Config, d_model: int, n_positions: int) -> Embedding:
    """Learned positions, or sinusoids that are counted from behind the position of padding."""
    positions: dict[str, Any] = {"n_positions": n_positions + OFFSET, "position_offset": OFFSET}
    if not cfg.flag("use_learned_position_embeddings", absent=True):
        offset = cfg.count("pad_token_id", absent=1) + 1
        positions = {"sinusoidal": True, "sinusoid": "halves", "position_offset": offset}
    return Embedding(
        **positions,
        scale=d_model**0.5 if cfg.flag("scale_embedding", absent=False) else 1.0,
        norm=LAYER_NORM if cfg.flag("layernorm_embedding", absent=True) else None,
    )


def _layer(cfg: Config, d_model: int) -> LayerGroup:
    """BART's: norms behind the blocks, biases everywhere."""
    n_heads = cfg.size("decoder_attention_heads")
    cfg.multiple("d_model", d_model, "decoder_attention_heads", n_heads)
    attention = Attention(n_heads=n_heads, causal=True, qkv_bias=True, out_bias=True, position="none", softmax="model")
    act = activation(cfg, "activation_function", absent="gelu")
    return LayerGroup(
        count=cfg.layers("decoder_layers"),
        mixer=attention,
        cross=attention.model_copy(update={"causal": False}),
        channel=Mlp(d_ff=cfg.size("decoder_ffn_dim"), bias=True, activation=act),
        norm=LAYER_NORM,
        placement="post",
        residual_dropout=True,
    )
