"""Parakeet with CTC (NVIDIA 2024): Fast Conformer (Rekesh et al. 2023, arXiv:2305.05084) over a spectrogram."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Convolution, ConvolutionModule, Frames, LayerGroup, Mlp, ModelSpec, Norm, Projection

NORM = Norm(kind="layernorm", bias=True)


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' ParakeetEncoderConfig. A word for each step of the encoder, unless that is alone."""
    alone = cfg.raw["model_type"] == "parakeet_encoder"
    usual = "ParakeetEncoder" if alone else "ParakeetForCTC"
    cfg.architecture({usual: alone}, usual=usual)
    encoder = cfg if alone else cfg.section("encoder_config")
    encoder.only("model_type", "parakeet_encoder", why="the encoder that is described")
    d_model = encoder.size("hidden_size")
    return ModelSpec(
        d_model=d_model,
        embedding=_frames(encoder, d_model),
        layers=(_layer(encoder, d_model),),
        final_norm=None,
        heads=() if alone else (Projection(name="ctc", d_out=cfg.size("vocab_size")),),
        head=None,
    )


def _frames(cfg: Config, d_model: int) -> Frames:
    """Convolutions over frames and mel bins; each behind the first is one kernel a channel and then a dense one."""
    factor = cfg.size("subsampling_factor", absent=8)
    channels = cfg.size("subsampling_conv_channels", absent=256)
    kernel, stride = cfg.size("subsampling_conv_kernel_size", absent=3), cfg.size("subsampling_conv_stride", absent=2)
    _odd(cfg, "subsampling_conv_kernel_size", kernel)
    count, mel = factor.bit_length() - 1, cfg.size("num_mel_bins", absent=80)
    size = {"n_channels": channels, "dims": 2}
    strided = size | {"kernel": kernel, "stride": stride, "padding": (kernel - 1) // 2}
    made = [Convolution(name="first", activation="relu", **strided)]
    for i in range(1, count):
        made += [
            Convolution(name=f"depthwise{i}", depthwise=True, activation=None, **strided),
            Convolution(name=f"pointwise{i}", kernel=1, activation="relu", **size),
        ]
    left = mel
    for each in made:
        left = each.steps(left)
    if left != mel // stride**count or left < 1:
        raise Refused(f"{cfg.where}num_mel_bins", f"{mel // stride**count} left behind {count} convolutions", left)
    scale = d_model**0.5 if cfg.flag("scale_input", absent=True) else 1.0
    return Frames(d_frame=mel, convolutions=tuple(made), scale=scale)


def _layer(cfg: Config, d_model: int) -> LayerGroup:
    """A Conformer's layer; one flag for the biases of attention and both halves of the feed-forward block."""
    n_heads, bias = cfg.size("num_attention_heads"), cfg.flag("attention_bias", absent=True)
    d_head = cfg.size("head_dim", absent=None)
    if d_head is None:
        d_head = cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    cfg.only("num_key_value_heads", n_heads, why="as many as num_attention_heads")
    kernel = cfg.size("conv_kernel_size", absent=9)
    _odd(cfg, "conv_kernel_size", kernel)
    act = activation(cfg, "hidden_act", absent="silu")
    return LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=Attention(
            n_heads=n_heads,
            d_head=d_head,
            causal=False,
            qkv_bias=bias,
            out_bias=bias,
            position="transformer-xl-each",
        ),
        channel=Mlp(d_ff=cfg.size("intermediate_size"), bias=bias, activation=act),
        macaron=True,
        convolution=ConvolutionModule(kernel=kernel, bias=cfg.flag("convolution_bias", absent=True), activation=act),
        out_norm=True,
        norm=NORM,
    )


def _odd(cfg: Config, name: str, kernel: int) -> None:
    if kernel % 2 == 0:
        raise Refused(f"{cfg.where}{name}", "an odd number", kernel)
