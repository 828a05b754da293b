"""Whisper (Radford et al. 2022, arXiv:2212.04356): an encoder of mel frames and a decoder of text that reads it."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.spec import (
    Activation,
    Attention,
    Convolution,
    Embedding,
    Frames,
    Head,
    LayerGroup,
    Mlp,
    ModelSpec,
    Projector,
    Tower,
)

FRAMES_PER_POSITION = 2
"""The second convolution takes every other frame."""


def spec(cfg: Config) -> ModelSpec:
    """LayerNorm before each block, biases everywhere but on keys, fixed encoder positions, head tied."""
    writes = cfg.architecture(
        {"WhisperForConditionalGeneration": True, "WhisperModel": False}, usual="WhisperForConditionalGeneration"
    )
    cfg.only("tie_word_embeddings", True, why="an untied head is not described by published configs of this family")
    d_model = cfg.size("d_model")
    n_positions = cfg.size("max_target_positions", absent=448)
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions),
        layers=(side_layer(cfg, "decoder", d_model, "gelu", k_bias=False),),
        final_norm=LAYER_NORM,
        head=Head(tied=True, wide_loss=False) if writes else None,
        encoder=Tower(
            name="encoder",
            d_model=d_model,
            embedding=frames(cfg, d_model, n_mels=80),
            layers=(side_layer(cfg, "encoder", d_model, "gelu", k_bias=False),),
            final_norm=LAYER_NORM,
        ),
    )


def audio_tower(cfg: Config, projector: Projector, *, normed: bool) -> Tower:
    """Whisper's encoder as the tower of a language model, which hears windows of as many frames as there are positions.

    normed: whether a norm stands behind its layers. Defaults as in transformers' Qwen2AudioEncoderConfig.
    """
    d_model = cfg.size("d_model")
    return Tower(
        name="audio",
        d_model=d_model,
        embedding=frames(cfg, d_model, n_mels=128),
        layers=(side_layer(cfg, "encoder", d_model, "gelu", k_bias=False),),
        final_norm=LAYER_NORM if normed else None,
        projectors=(projector,),
    )


def frames(cfg: Config, d_model: int, n_mels: int) -> Frames:
    """Two convolutions of 3 frames, the second with stride 2. The positions are sinusoids in a table kept frozen.

    n_mels: what an absent num_mel_bins means.
    """
    n_positions = cfg.size("max_source_positions", absent=1500)
    return Frames(
        n_frames=FRAMES_PER_POSITION * n_positions,
        d_frame=cfg.size("num_mel_bins", absent=n_mels),
        convolutions=mel_convolutions(d_model),
        project=False,
        n_positions=n_positions,
        trained_positions=False,
        sinusoid="halves",
    )


def mel_convolutions(d_model: int) -> tuple[Convolution, Convolution]:
    """Two convolutions over time, the second of which takes every other frame."""
    return (
        Convolution(name="conv1", n_channels=d_model, kernel=3, padding=1),
        Convolution(name="conv2", n_channels=d_model, kernel=3, stride=FRAMES_PER_POSITION, padding=1),
    )


def side_layer(cfg: Config, side: str, d_model: int, act: Activation, **structure: Any) -> LayerGroup:
    """The layers of the encoder or the decoder, each with sizes of its own.

    act: what an absent activation_function means. structure: fields of Attention.
    """
    n_heads = cfg.size(f"{side}_attention_heads")
    cfg.multiple("d_model", d_model, f"{side}_attention_heads", n_heads)
    decodes = side == "decoder"
    biases: dict[str, Any] = {"qkv_bias": True, "out_bias": True}
    mixer = Attention(n_heads=n_heads, causal=decodes, position="none", softmax="model", **biases, **structure)
    act = activation(cfg, "activation_function", absent=act)
    return LayerGroup(
        count=cfg.layers(f"{side}_layers"),
        mixer=mixer,
        cross=mixer.model_copy(update={"causal": False}) if decodes else None,
        channel=Mlp(d_ff=cfg.size(f"{side}_ffn_dim"), bias=True, activation=act),
        norm=LAYER_NORM,
        residual_dropout=True,
    )
