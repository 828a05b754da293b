"""Gemma 3n's ears (Google, 2025): the encoder of the Universal Speech Model (Zhang et al. 2023, arXiv:2303.01037),
Conformer layers that hear in chunks."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import (
    Across,
    ChunkAttention,
    Convolution,
    ConvolutionModule,
    Frames,
    LayerGroup,
    Mlp,
    ModelSpec,
    Norm,
)

NORM = Norm(eps=1e-6, wide=True, by_power=True)
"""Gemma3nRMSNorm, with the epsilon of its class."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Gemma3nAudioConfig. What its vectors are embedded with, vocab_size and vocab_offset,
    belongs to the model that hears."""
    cfg.architecture({"Gemma3nAudioEncoder": None}, usual="Gemma3nAudioEncoder")
    return ModelSpec(head=None, **stack_of(cfg))


def stack_of(cfg: Config) -> dict[str, Any]:
    """The fields of a stack."""
    d_model = cfg.size("hidden_size", absent=1536)
    return {
        "d_model": d_model,
        "embedding": _frames(cfg),
        "layers": (_layer(cfg, d_model),),
        "final_norm": None,
        "every": max(1, cfg.count("conf_reduction_factor", absent=4)),
    }


def _frames(cfg: Config) -> Frames:
    """Two convolutions over frames and their values, zeros behind time and one on either side of the values."""
    mel = cfg.size("input_feat_size", absent=128)
    channels = cfg.numbers("sscp_conv_channel_size", length=2, absent=(128, 32))
    kernels, strides = (_pairs(cfg, f"sscp_conv_{name}_size", side) for name, side in (("kernel", 3), ("stride", 2)))
    eps, left, made = cfg.number("sscp_conv_group_norm_eps", absent=1e-3), mel, []
    for name, n, kernel, stride in zip(("first", "second"), channels, kernels, strides, strict=True):
        across = Across(kernel=kernel[1], stride=stride[1], padding=1)
        if left + 2 < kernel[1]:
            raise Refused(f"{cfg.where}sscp_conv_kernel_size", f"at most {left + 2} of {left} values", kernel[1])
        left = across.left(left)
        made.append(
            Convolution(
                name=name,
                n_channels=n,
                kernel=kernel[0],
                stride=stride[0],
                padding=kernel[0] - 1,
                dims=2,
                bias=False,
                behind=True,
                across=across,
                norm="cumulative",
                eps=eps,
                activation="relu",
            )
        )
    return Frames(d_frame=mel, convolutions=tuple(made), project_bias=False)


def _pairs(cfg: Config, name: str, side: int) -> tuple[tuple[int, ...], ...]:
    """Of both convolutions: along time, and along a frame's values."""
    pairs = cfg.number_lists(name, absent=((side, side),) * 2)
    if [len(each) for each in pairs] != [2, 2] or min(map(min, pairs)) < 1:
        raise Refused(f"{cfg.where}{name}", "two pairs of numbers above 0", [list(each) for each in pairs])
    return pairs


def _layer(cfg: Config, d_model: int) -> LayerGroup:
    """Four times as wide feed-forward blocks on both sides; norms around all blocks, values cut to an interval."""
    cfg_heads = cfg.size("conf_num_attention_heads", absent=8)
    d_head = cfg.multiple("hidden_size", d_model, "conf_num_attention_heads", cfg_heads)
    cfg.multiple("hidden_size", d_model, "sines and cosines of a distance, which are", 2)
    left, right = (
        cfg.count("conf_attention_context_left", absent=13),
        cfg.count("conf_attention_context_right", absent=0),
    )
    if left + right < 2 and right == 0:
        expected = "2 at least, where no steps behind are read (conf_attention_context_right)"
        raise Refused(f"{cfg.where}conf_attention_context_left", expected, left)
    cut = cfg.number("gradient_clipping", absent=1e10)
    own = NORM.model_copy(update={"eps": cfg.number("rms_norm_eps", absent=1e-6)})
    return LayerGroup(
        count=cfg.size("conf_num_hidden_layers", absent=12, limit=10**5),
        mixer=ChunkAttention(
            n_heads=cfg_heads,
            d_head=d_head,
            chunk=cfg.size("conf_attention_chunk_size", absent=12, limit=2**20),
            before=max(0, left - 1),
            after=right,
            softcap=cfg.number("conf_attention_logit_cap", absent=50.0),
        ),
        channel=Mlp(d_ff=4 * d_model, activation="silu"),
        macaron=True,
        macaron_share=cfg.number("conf_residual_weight", absent=0.5),
        convolution=ConvolutionModule(
            kernel=cfg.size("conf_conv_kernel_size", absent=5, limit=10**4), causal=True, norm=own, cut=cut
        ),
        out_norm=True,
        norm=NORM,
        placement="sandwich",
        cut=cut,
    )
