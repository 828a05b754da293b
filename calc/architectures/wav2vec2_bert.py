"""W2v-BERT 2.0 (Barrault et al. 2023, arXiv:2312.05187): a spectrogram into Conformer layers."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import activation
from calc.architectures.config import REFUSE, Config
from calc.architectures.vit import layer_norm
from calc.architectures.wav2vec2 import EPS, heads
from calc.architectures.wav2vec2_conformer import POSITIONS, attention, layer
from calc.errors import Refused
from calc.spec import Attention, ConvolutionModule, Frames, LayerGroup, Mlp, ModelSpec, Norm, Residual, Shaw, Shortened

KINDS: dict[str, Any] = POSITIONS | {"relative_key": "shaw"}


def spec(cfg: Config) -> ModelSpec:
    """Two frames of 80 mel bins side by side are normed and projected; the convolution of a layer sees no frame to
    come. Defaults as in transformers' Wav2Vec2BertConfig."""
    cfg.only("use_weighted_layer_sum", False, why="a sum over all layers is not described")
    kind = cfg.architecture(
        {
            "Wav2Vec2BertForCTC": "ctc",
            "Wav2Vec2BertForSequenceClassification": "classifier",
            "Wav2Vec2BertForAudioFrameClassification": "frames",
            "Wav2Vec2BertModel": "none",
        },
        usual="Wav2Vec2BertModel",
    )
    norm = layer_norm(cfg, EPS)
    module = ConvolutionModule(causal=True, norm=norm)
    masks = cfg.number("mask_time_prob", absent=0.05) > 0 or cfg.number("mask_feature_prob", absent=0.0) > 0
    d_frame = cfg.size("feature_projection_input_dim", absent=160)
    adapts = cfg.flag("add_adapter", absent=False)
    if adapts and kind in ("classifier", "frames"):
        raise Refused(f"{cfg.where}add_adapter", "false, since this class takes no adapter", True)
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        embedding=Frames(d_frame=d_frame, convolutions=(), before=norm, mask_vector=masks),
        layers=(layer(cfg, "silu", _attention(cfg), module, norm), *_adapter(cfg, norm, adapts=adapts)),
        final_norm=None,
        heads=heads(cfg, kind, words=REFUSE, width=768),
        head=None,
    )


def _attention(cfg: Config) -> Attention:
    position = cfg.choice("position_embeddings_type", among=KINDS, absent="shaw", null="none")
    if position != "shaw":
        return attention(cfg, position)
    behind = cfg.size("left_max_position_embeddings", absent=64)
    ahead = cfg.size("right_max_position_embeddings", absent=8)
    shaw = Shaw(max_distance=behind, ahead=ahead, values=False)
    return attention(cfg, "none").model_copy(update={"shaw": shaw})


def _adapter(cfg: Config, norm: Norm, *, adapts: bool) -> tuple[LayerGroup, ...]:
    """Layers of ever fewer steps, perhaps behind half a feed-forward block that reads the encoder's as it is."""
    between = cfg.flag("use_intermediate_ffn_before_adapter", absent=False)
    if between and not adapts:
        raise Refused(f"{cfg.where}use_intermediate_ffn_before_adapter", "false without add_adapter", True)
    if not adapts:
        return ()
    d_model = cfg.size("hidden_size")
    if (width := cfg.size("output_hidden_size", absent=None, null=None)) not in (None, d_model):
        raise Refused(f"{cfg.where}output_hidden_size", f"hidden_size = {d_model}", width)
    d_ff = cfg.size("intermediate_size")
    half = LayerGroup(
        name="between",
        count=1,
        channel=Mlp(d_ff=d_ff, bias=True, activation="relu"),
        first_norm=False,
        residual=Residual(channel_added=0.5),
        norm=norm,
    )
    stride = cfg.size("adapter_stride", absent=2, limit=10**4)
    kernel = cfg.size("adapter_kernel_size", absent=3, limit=10**4)
    if kernel > 2 * (stride // 2) + 1:
        most = 2 * (stride // 2) + 1
        raise Refused(f"{cfg.where}adapter_kernel_size", f"at most {most}, so that something is left of a step", kernel)
    shorter = Shortened(kernel=kernel, stride=stride, padding=stride // 2, attention=attention(cfg, "none"))
    channel = Mlp(d_ff=d_ff, bias=True, activation=activation(cfg, "adapter_act", absent="relu"))
    layers = shortened_layers(cfg, shorter, channel, norm)
    return (half, *layers) if between else layers


def shortened_layers(cfg: Config, shorter: Shortened, channel: Mlp, norm: Norm) -> tuple[LayerGroup, ...]:
    """An adapter's layers one behind another, of ever fewer steps; `num_adapter_layers` of them."""
    return tuple(
        LayerGroup(name=f"adapter{i}", count=1, shortened=shorter, channel=channel, norm=norm)
        for i in range(1, cfg.size("num_adapter_layers", absent=1, limit=64) + 1)
    )
