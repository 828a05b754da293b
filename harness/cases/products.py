"""What cases of matrix products have ready alike: operands that take turns, and the error against another product."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.cases.case import Ready
from harness.cases.tensors import Turns, no_gradient

if TYPE_CHECKING:
    from torch import Tensor


def ready_product(
    turns: Turns[Any], multiply: Callable[..., Tensor], error: Callable[..., float], tolerance: float
) -> Ready:
    """A product of each set of operands. multiply: operands -> the result. error: of a result, and its operands."""
    run = no_gradient(lambda: multiply(*turns()))
    return Ready(
        run=run,
        check=lambda: error(run(), *turns.now),
        tolerance=tolerance,
        rotate=turns.rotate,
        graphable=True,
    )
