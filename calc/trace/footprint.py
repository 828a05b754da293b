"""How a pass runs that keeps nothing for backward, as far as it decides what is live at once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from calc.sizes import Size, ceil_div, is_exactly, minimum
from calc.spec.fields import DeviceKind
from calc.spec.run.execution import KERNELS, Kernels
from calc.trace.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Footprint:
    """execution: which operators are one kernel. width: bytes of an activation. tp: tensor-parallel ranks. device: a
    GPU's softmax reads 16 bits and writes 32, a CPU's a copy in 32."""

    execution: Kernels = "sdpa"
    width: int = 2
    tp: Size = 1
    device: DeviceKind = "cuda"

    @property
    def compiled(self) -> bool:
        """Whether runs of elementwise operators are one kernel, and a result that is not needed any more is free at
        once. Else names of a program hold it, as transformers writes it."""
        return self.execution == "compiled"

    def on_chip(self, x: Tensor) -> bool:
        """Whether a tensor does not leave the kernel that makes it."""
        return x.inside is not None and KERNELS.index(self.execution) >= KERNELS.index(x.inside)

    def of(self, x: Tensor, times: Fraction | int = 1) -> Size:
        """Bytes of a tensor on one rank, 0 where no memory holds it; or so many times as much."""
        if self.on_chip(x):
            return 0
        return self._on_rank(x, (4 if x.wide else self.width) * times)

    def in_fp32(self, x: Tensor) -> Size:
        """Bytes of a copy of a tensor in fp32."""
        return self._on_rank(x, 4)

    def _on_rank(self, x: Tensor, width: Fraction | int) -> Size:
        nbytes = _whole(x.rows * x.width, width)
        if (isinstance(self.tp, int) and self.tp == 1) or x.split not in ("tensor", "vocab", "kv"):
            return nbytes
        if not is_exactly(x.grouped, 0):
            grouped = _whole(x.grouped, width)
            return ceil_div(nbytes - grouped, self.tp) + ceil_div(grouped, minimum(self.tp, x.heads))
        return ceil_div(nbytes, minimum(self.tp, x.heads) if x.split == "kv" else self.tp)


def _whole(elements: Size, width: Fraction | int) -> Size:
    """Bytes of so many elements, none of them broken."""
    if isinstance(width, Fraction):
        above, below = width.as_integer_ratio()
        return ceil_div(elements * above, below)
    nbytes = elements * width
    return ceil(nbytes) if isinstance(nbytes, Fraction) else nbytes
