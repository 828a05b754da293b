"""What a table of blocks says of each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from calc.trace.op import Component
from calc.trace.tensor import Tensor


class Program(NamedTuple):
    """One kind of block. name: of its part, and so the path of its weights. of: what these are reported as.

    run: (trace, description, x [batch * seq, d_model], load, around) -> the same shape.
    """

    name: str
    of: Component
    run: Callable[..., Tensor]
