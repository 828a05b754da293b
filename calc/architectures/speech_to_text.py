"""Speech2Text (Wang et al. 2020, arXiv:2010.05171): the speech transformer of fairseq, a decoder of text over sound."""

from __future__ import annotations

from calc.architectures.common import LAYER_NORM
from calc.architectures.config import Config
from calc.architectures.whisper import side_layer
from calc.errors import Refused
from calc.spec import Convolution, Embedding, Frames, Head, ModelSpec, Tower


def spec(cfg: Config) -> ModelSpec:
    """Gated convolutions that halve the frames, fixed positions, LayerNorm before each block, biases everywhere."""
    writes = cfg.architecture(
        {"Speech2TextForConditionalGeneration": True, "Speech2TextModel": False},
        usual="Speech2TextForConditionalGeneration",
    )
    d_model = cfg.size("d_model")
    scale = d_model**0.5 if cfg.flag("scale_embedding", absent=True) else 1.0
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=cfg.size("max_target_positions", absent=1024),
        embedding=Embedding(sinusoidal=True, sinusoid="halves", scale=scale, position_offset=_first(cfg)),
        layers=(side_layer(cfg, "decoder", d_model, "relu"),),
        final_norm=LAYER_NORM,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=True), wide_loss=False) if writes else None,
        encoder=Tower(
            name="encoder",
            d_model=d_model,
            embedding=_frames(cfg, d_model, scale),
            layers=(side_layer(cfg, "encoder", d_model, "relu"),),
            final_norm=LAYER_NORM,
        ),
    )


def _first(cfg: Config) -> int:
    """The number of the first position: fairseq counts from behind that of padding."""
    return cfg.count("pad_token_id", absent=1) + 1


def _frames(cfg: Config, d_model: int, scale: float) -> Frames:
    """Each convolution takes every other frame and gates half of its channels with the other half."""
    count = cfg.size("num_conv_layers", absent=2, limit=64)
    kernels = cfg.numbers("conv_kernel_sizes", length=count, absent=(5, 5))
    if len(kernels) != count or 0 in kernels:
        raise Refused(f"{cfg.where}conv_kernel_sizes", f"{count} numbers above 0, as num_conv_layers", str(kernels))
    inner = cfg.size("conv_channels", absent=1024)
    cfg.multiple("conv_channels", inner, "the halves of a gate", 2)
    channels = (*[inner] * (count - 1), 2 * d_model)
    return Frames(
        d_frame=cfg.size("input_feat_per_channel", absent=80) * cfg.size("input_channels", absent=1),
        convolutions=tuple(
            Convolution(name=f"conv{i}", n_channels=n, kernel=k, stride=2, padding=k // 2, glu=True, activation=None)
            for i, (n, k) in enumerate(zip(channels, kernels, strict=True))
        ),
        project=False,
        scale=scale,
        sinusoidal=True,
        sinusoid="halves",
        position_offset=_first(cfg),
    )
