"""What going back through an op takes."""

from __future__ import annotations

from calc.sizes import Size
from calc.trace.op import Op


def backward(op: Op) -> Size:
    """FLOPs of going back: as many again for the input, and for the weights or the second operand, of those alone that
    something trained needs."""
    if op.backward is not None:
        return op.backward
    if op.kind == "attention":
        return 2 * op.flops
    trains = any(weight.trainable for weight in op.weights)
    return op.reached * ((int(op.input_grad) + int(trains)) * op.flops)
