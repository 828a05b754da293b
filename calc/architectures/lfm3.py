"""LFM3 (Liquid AI 2026): LFM2's gated short convolutions, attention that slides or not with a gate a head, and norms on
both sides of every block."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import stack, window_of
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder
from calc.architectures.rope import rope
from calc.spec import Attention, GatedConvolution, LayerGroup, Mlp, ModelSpec, Norm, QkNorm, Rope

WORDS = {"full_attention": "full", "sliding_attention": "sliding", "conv": "convolution"}
ROPES = {"full": Rope(theta=1_000_000.0, fraction=0.5, proportional=True), "sliding": Rope()}
"""What the class takes where `rope_parameters` is absent."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Lfm3Config: 4 key-value heads, heads 128 wide, window 256, convolutions of 7; one
    layer of four attends to all tokens and one slides, but for the first."""
    n_layers = cfg.layers("num_hidden_layers")
    norm = Norm(eps=cfg.number("norm_eps", absent=1e-5))
    window = cfg.size("sliding_window", absent=256, null=None)
    channel = Mlp(d_ff=cfg.size("intermediate_size"), gated=True, activation="silu")
    sandwiched = cfg.flag("use_sandwich_norm", absent=True)

    def layer(kind: str) -> LayerGroup:
        mixer = _convolution(cfg) if kind == "convolution" else _attention(cfg, kind, window, norm)
        placement: Any = "sandwich" if sandwiched else "pre"
        return LayerGroup(count=1, mixer=mixer, channel=channel, norm=norm, placement=placement)

    words = cfg.words("layer_types", among=tuple(WORDS), length=n_layers, absent=None, null=None)
    kinds = _usual(n_layers) if words is None else [WORDS[word] for word in words]
    return decoder(cfg, stack(kinds, layer), max_seq_len=128000, norm=norm, tied=True)


def _usual(n_layers: int) -> list[str]:
    return ["full" if i % 4 == 2 else "sliding" if i % 4 == 0 and i > 0 else "convolution" for i in range(n_layers)]


def _convolution(cfg: Config) -> GatedConvolution:
    return GatedConvolution(d_conv=cfg.size("conv_L_cache", absent=7), bias=cfg.flag("conv_bias", absent=False))


def _attention(cfg: Config, kind: str, window: int | None, norm: Norm) -> Attention:
    bias = cfg.flag("attention_bias", absent=False)
    given = cfg.raw.get("rope_parameters") is not None
    turning = rope(cfg, layers=f"{kind}_attention") if given else ROPES[kind]
    return attention(
        cfg,
        kv_absent=4,
        kv_null=REFUSE,
        d_head_absent=128,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        rope=turning,
        window=window_of(kind, window),
        head_gate="sigmoid" if cfg.flag("use_attention_gate", absent=True) else None,
    )
