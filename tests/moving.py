"""What PyTorch really moves: every kernel of a run with the bytes of its operands and results."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

STILL = (
    *("_unsafe_view", "detach", "lift_fresh", "alias", "empty", "empty_like", "new_empty"),
    *("_local_scalar_dense", "promote_types"),
)
"""Operations that are no views by their schema and yet move nothing."""
LOOKUPS = ("embedding", "index", "gather", "index_select")
"""Operations that read of their first operand only what they return."""


class Ran(NamedTuple):
    """One kernel: its aten name, and the bytes that it reads and writes."""

    name: str
    reads: int
    writes: int

    @property
    def bytes(self) -> int:
        return self.reads + self.writes


class Moving(TorchDispatchMode):
    """Records every aten operation that goes through memory, views and allocations left out."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[Ran] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if func.is_view or name in STILL:
            return result
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        made = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        writes = sum(map(touched, made))
        reads = sum(map(touched, given[1:])) + writes if name in LOOKUPS else sum(map(touched, given))
        self.ran.append(Ran(name, reads, writes))
        return result

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.ran)


def touched(tensor: Tensor) -> int:
    """Bytes of the elements that a tensor shows; one that is spread out without being copied counts once."""
    own = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        own *= size if stride or size == 0 else 1
    return own * tensor.element_size()


def moving(run: Any) -> list[Ran]:
    """The kernels that `run()` launches, without gradients."""
    with torch.no_grad(), Moving() as mode:
        run()
    return mode.ran
