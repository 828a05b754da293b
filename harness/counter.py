"""Counting what PyTorch executes: the formulas of torch's FlopCounterMode, with its known faults corrected by name.

Not corrected, since the reference models avoid it: scaled_dot_product_attention on CPU counts 0, on meta a causal one
counts in full; grouped matrix products count 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
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


class _Counter(TorchDispatchMode):
    """Adds up the FLOPs of every operation.

    FlopCounterMode itself, which also says in which module they are, takes several times as long over each operation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self._of_packets = FlopCounterMode(display=False, custom_mapping=CORRECTIONS).flop_registry
        self._formulas: dict[Any, Callable[..., int] | None] = {}

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if op not in self._formulas:
            formula = self._of_packets.get(op.overloadpacket)
            if formula is None:
                with self:  # what it is made of may be products
                    out = op.decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            self._formulas[op] = formula
        formula, out = self._formulas[op], _result(op, args, kwargs)
        if formula is not None:
            self.total += formula(*args, **kwargs, out_val=out)
        return out


MOST = 2**16
"""Results on meta that are remembered."""
_KNOWN: dict[Any, tuple[Any, ...]] = {}
"""An operation and what its arguments are like -> its result's shape, strides and format."""


def _result(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operation gives. On meta, where PyTorch works results out in Python for most of the time that a model
    takes, one like that for arguments like these."""
    if not _gives_new(op):
        return op(*args, **kwargs)
    key = op, _alike(args), tuple(kwargs), _alike(kwargs.values()), torch.get_default_dtype()
    known = _KNOWN.get(key)
    if known is not None:
        shape, stride, dtype = known
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    out = op(*args, **kwargs)
    if isinstance(out, torch.Tensor) and out.is_meta:
        if len(_KNOWN) >= MOST:
            _KNOWN.clear()
        _KNOWN[key] = out.shape, out.stride(), out.dtype
    return out


@cache
def _gives_new(op: Any) -> bool:
    """Whether what an operation gives is no argument of it, and no view of one."""
    return not op._schema.is_mutable and all(each.alias_info is None for each in op._schema.returns)


def _alike(values: Iterable[Any]) -> tuple[Any, ...]:
    """What a result on meta depends on."""
    return tuple([_described(each) for each in values])


def _described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        # One that has numbers is like no other.
        return (value.shape, value.stride(), value.dtype) if value.is_meta else object()
    return _alike(value) if isinstance(value, list | tuple) else (type(value), value)


def count(run: Callable[[], Any]) -> int:
    """FLOPs of all matrix products and convolutions that `run` executes, forward and backward."""
    with _Counter() as counter:
        run()
    return counter.total
