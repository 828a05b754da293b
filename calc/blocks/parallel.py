"""Mixers side by side in one layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from calc.blocks.linear import residual
from calc.load import Load
from calc.op import Part
from calc.sizes import Size
from calc.spec import Node, Parallel


def parallel(spec: Parallel, d_model: Size, load: Load, mixers: Mapping[type[Node], Callable[..., Part]]) -> Part:
    """Each branch's mixer on the same vectors [batch, seq, d_model], and the sum of what they give.

    mixers: how each kind is laid. A multiplier of a branch is no product of matrices and counts 0.
    """
    branches = tuple(mixers[type(branch.mixer)](branch.mixer, d_model, load) for branch in spec.branches)
    return Part("parallel", (*branches, residual("add", load.tokens, d_model, n=len(branches))))
