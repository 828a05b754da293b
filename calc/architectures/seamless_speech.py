"""What hears in SeamlessM4T: a spectrogram into Conformer layers, then fewer steps of it by an adapter's."""

from __future__ import annotations

from typing import Any, Literal

from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.architectures.vit import layer_norm
from calc.architectures.wav2vec2_bert import shortened_layers
from calc.errors import Refused
from calc.spec import (
    Attention,
    ConvolutionModule,
    Frames,
    LayerGroup,
    Mlp,
    Residual,
    Rope,
    Shaw,
    Shortened,
    Tower,
)

EPS = 1e-5
POSITIONS: dict[str, Any] = {"relative": "transformer-xl", "rotary": "rope"}


def speech_encoder(cfg: Config, *, second: bool, name: Literal["encoder", "speech_encoder"] = "encoder") -> Tower:
    """Two frames of 80 mel bins side by side are normed and projected; behind the layers half a feed-forward block
    reads what is normed, and an adapter's layers keep every so many steps. Defaults as in SeamlessM4Tv2Config.

    second: the second version, whose convolutions see no frame to come.
    """
    d_model = cfg.size("hidden_size")
    behind = Mlp(d_ff=cfg.size("speech_encoder_intermediate_size"), bias=True, activation="relu")
    whole = LayerGroup(
        name="whole",
        count=1,
        channel=behind,
        norm=layer_norm(cfg, EPS),
        residual=Residual(normed=True, channel_added=0.5),
    )
    return Tower(
        name=name,
        d_model=d_model,
        embedding=Frames(
            d_frame=cfg.size("feature_projection_input_dim", absent=160), convolutions=(), before=layer_norm(cfg, EPS)
        ),
        layers=(_conformer(cfg, d_model, second=second), whole, *_adapter(cfg, d_model, behind)),
        final_norm=LAYER_NORM,
    )


def _conformer(cfg: Config, d_model: int, *, second: bool) -> LayerGroup:
    kernel = cfg.size("conv_depthwise_kernel_size", absent=31, limit=10**4)
    if kernel % 2 == 0:
        raise Refused(f"{cfg.where}conv_depthwise_kernel_size", "an odd number", kernel)
    act = activation(cfg, "speech_encoder_hidden_act", absent="silu")
    return LayerGroup(
        name="conformer",
        count=cfg.layers("speech_encoder_layers"),
        mixer=_placed(cfg, d_model) if second else _turned(cfg, d_model),
        channel=Mlp(d_ff=cfg.size("speech_encoder_intermediate_size"), bias=True, activation=act),
        macaron=True,
        convolution=ConvolutionModule(
            kernel=kernel, activation=act, causal=second, norm=LAYER_NORM if second else None
        ),
        out_norm=True,
        norm=LAYER_NORM,
    )


def _attention(cfg: Config, d_model: int, **fields: Any) -> Attention:
    n_heads = cfg.size("speech_encoder_attention_heads")
    cfg.multiple("hidden_size", d_model, "speech_encoder_attention_heads", n_heads)
    how: dict[str, Any] = {"position": "none", "qkv_bias": True, "out_bias": True, "softmax": "model"}
    return Attention(n_heads=n_heads, causal=False, **how | fields)


def _placed(cfg: Config, d_model: int) -> Attention:
    """Distances clipped apart behind and ahead. Steps see those of their own chunk and of chunks before it: as eager
    attention runs that mask it hides nothing, so sounds of one chunk alone are described."""
    chunk = cfg.size("speech_encoder_chunk_size", absent=20_000)
    cfg.only("position_embeddings_type", "relative_key", why="distances of this version")
    behind = cfg.size("left_max_position_embeddings", absent=64)
    ahead = cfg.size("right_max_position_embeddings", absent=8)
    return _attention(cfg, d_model, longest=chunk, shaw=Shaw(max_distance=behind, ahead=ahead, values=False))


def _turned(cfg: Config, d_model: int) -> Attention:
    kind = cfg.choice("position_embeddings_type", among=POSITIONS, absent="transformer-xl")
    rope = Rope(theta=cfg.number("rotary_embedding_base", absent=10_000.0), inputs=True)
    return _attention(cfg, d_model, position=kind, rope=rope)


def _adapter(cfg: Config, d_model: int, channel: Mlp) -> tuple[LayerGroup, ...]:
    """Layers one behind another, of ever fewer steps."""
    if not cfg.flag("add_adapter", absent=True):
        return ()
    stride = cfg.size("adaptor_stride", absent=8, limit=10**4)
    shorter = Shortened(
        kernel=cfg.size("adaptor_kernel_size", absent=8, limit=10**4),
        stride=stride,
        padding=stride // 2,
        attention=_attention(cfg, d_model),
    )
    return shortened_layers(cfg, shorter, channel, LAYER_NORM)
