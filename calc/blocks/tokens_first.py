"""Vectors of several texts laid out token by token."""

from __future__ import annotations

from calc.sizes import is_exactly
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def tokens_first(t: Trace, x: Tensor, load: Load) -> Tensor:
    """x [batch * seq, width] with tokens ahead of texts: a copy where there are several texts."""
    return x if is_exactly(load.batch, 1) else t.joined(x, rows=x.rows, width=x.width)
