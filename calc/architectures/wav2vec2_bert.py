"""W2v-BERT 2.0 (Barrault et al. 2023, arXiv:2312.05187): a spectrogram into Conformer layers."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import REFUSE, Config
from calc.architectures.vit import layer_norm
from calc.architectures.wav2vec2 import EPS, heads
from calc.architectures.wav2vec2_conformer import POSITIONS, attention, layer
from calc.spec import Attention, ConvolutionModule, Frames, ModelSpec, Shaw

KINDS: dict[str, Any] = POSITIONS | {"relative_key": "shaw"}


def spec(cfg: Config) -> ModelSpec:
    """Two frames of 80 mel bins side by side are normed and projected; the convolution of a layer sees no frame to
    come. Defaults as in transformers' Wav2Vec2BertConfig."""
    cfg.only("add_adapter", False, why="the convolutions behind the encoder are not described")
    cfg.only("use_intermediate_ffn_before_adapter", False, why="adapters are not described")
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
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        embedding=Frames(d_frame=d_frame, convolutions=(), before=norm, mask_vector=masks),
        layers=(layer(cfg, "silu", _attention(cfg), module, norm),),
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
