"""The gated short convolution of LFM2."""

from __future__ import annotations

from typing import ClassVar, Literal

from calc.spec.fields import Dim, Node


class GatedConvolution(Node):
    """c * convolution(b * x), where b, c and x are projected from a token at once (LFM2: Liquid AI 2025).

    d_inner: channels of b, c and x; None means d_model. d_conv: taps of the causal convolution, a filter of its own for
    each of them. bias: of the convolution and of the projections in and out. Source: transformers 5.23,
    models/lfm2/modeling_lfm2.py.
    """

    symbols: ClassVar[dict[str, str]] = {"d_inner": "d_gated"}
    kind: Literal["gated_convolution"] = "gated_convolution"
    d_inner: Dim | None = None
    d_conv: Dim = 3
    bias: bool = False
