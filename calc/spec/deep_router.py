"""A router of several layers."""

from __future__ import annotations

from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class DeepRouter(Node):
    """A router of several layers (ZAYA1): a matrix to `d_router` values, a norm, twice a matrix and GELU, and scores.

    All matrices but the last have biases, and scores become weights in the model's format. carries: what the layer
    before had ahead of its norm is added, times a learned vector, to what stands ahead of this one. Source:
    transformers 5.23, models/zaya/modeling_zaya.py, ZayaRouter.
    """

    d_router: Dim
    norm: Norm = Norm()
    carries: bool = False
