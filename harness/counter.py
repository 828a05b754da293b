"""Counting what PyTorch executes: torch's FlopCounterMode with its known faults corrected, listed by name.

Not corrected, since the reference models avoid it: scaled_dot_product_attention on CPU counts 0, on meta a causal one
counts in full; grouped matrix products count 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

aten = torch.ops.aten


def _matrix_vector(matrix: Sequence[int], vector: Sequence[int], *args: Any, out_shape: Any = None, **kw: Any) -> int:
    """Counted as 0 by torch, though it is a product like any other."""
    return 2 * prod(matrix)


def _added_matrix_vector(bias: Any, matrix: Sequence[int], vector: Sequence[int], *args: Any, **kw: Any) -> int:
    return 2 * prod(matrix)


def _convolution_backward(
    grad: Sequence[int],
    x: Sequence[int],
    weight: Sequence[int],
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    wanted: Sequence[bool],
    out_shape: Any = None,
) -> int:
    """As many products as forward for the input's gradient and again for the weight's; torch forgets the groups."""
    once = conv_flop_count(list(x), list(weight), list(grad), transposed=transposed)
    return once * (int(wanted[0]) + int(wanted[1]))


CORRECTIONS = {
    aten.mv: _matrix_vector,
    aten.dot: _matrix_vector,
    aten.addmv: _added_matrix_vector,
    aten.convolution_backward: _convolution_backward,
}
"""Operator -> its FLOPs, from the shapes of its arguments."""


def count(run: Callable[[], Any]) -> int:
    """FLOPs of all matrix products and convolutions that `run` executes, forward and backward."""
    with FlopCounterMode(display=False, custom_mapping=CORRECTIONS) as counter:
        run()
    return counter.get_total_flops()
