"""Kimi delta attention: a delta net whose state forgets each channel of its keys at a rate of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Kda(Node):
    """Kimi delta attention (Kimi Team 2025, arXiv:2510.26692, section 3).

    n_heads, d_head: heads of queries, keys and values, all as wide; the state of each is d_head * d_head, and its decay
    a vector of d_head. Decay and output gate come out of bottlenecks of width d_head, or without `bottleneck` out of
    one matrix each. bound: a decay's logarithm lies between it and 0, bound * sigmoid(exp(A_log) * step) in place of
    -exp(A_log) * softplus(step) (both Ling 3). d_conv: taps of the causal convolution over queries, keys and values.
    chunk: tokens that are worked off as one product. norm: on each head's result, before its gate, a sigmoid.
    """

    symbols: ClassVar[dict[str, str]] = {"n_heads": "n_kda_heads", "d_head": "d_kda_head"}
    kind: Literal["kda"] = "kda"
    n_heads: Dim
    d_head: Dim
    d_conv: Dim = 4
    chunk: Dim = 64
    bottleneck: bool = True
    bound: float | None = Field(default=None, lt=0)
    norm: Norm = Norm()
