"""What PyTorch runs for an op where nothing is fused: how many kernels, and the bytes that these move together.

Measured on the modules of `reference_models`, which write their functions out as transformers 5.23 does
(`tests/quantities/test_eager.py` runs them and counts). Kernels on a row or on a few numbers count as kernels, not as
bytes, and so does not what makes masks and angles, which all layers share or which have no batch.
"""

from __future__ import annotations

from typing import NamedTuple

from calc.errors import Refused
from calc.sizes import Size
from calc.trace.functions import Attend, Function
from calc.trace.op import Op


class Passes(NamedTuple):
    """kernels: how many run. bytes: of activations that they move; in the table, for each element of the result."""

    kernels: int
    bytes: Size


class Eager(NamedTuple):
    """The kernels of one function in a format of 16 bits, which norms and softmax leave for float32, and in float32.

    cast: in 16 bits under autocast on a GPU, where GELU written out has a power, which that takes to float32 with all
    that follows; None: as narrow.
    """

    narrow: Passes
    wide: Passes
    cast: Passes | None = None


def _alike(kernels: int, passes: int) -> Eager:
    """So many kernels that read or write `passes` tensors as large as the result, in any format."""
    return Eager(Passes(kernels, 2 * passes), Passes(kernels, 4 * passes))


EAGER_KERNELS: dict[Function, Eager] = {
    "layernorm": _alike(1, 2),
    "rmsnorm": Eager(Passes(8, 36), Passes(6, 28)),
    "add": _alike(1, 3),
    "gelu": _alike(1, 2),
    "gelu_new": Eager(Passes(8, 36), Passes(8, 72), Passes(9, 70)),
    "gelu_tanh": _alike(1, 2),
    "gelu_fast": _alike(9, 21),
    "quick_gelu": _alike(3, 7),
    "relu": _alike(1, 2),
    "relu2": _alike(2, 4),
    "relu6": _alike(1, 2),
    "leaky_relu": _alike(1, 2),
    "silu": _alike(1, 2),
    "hardswish": _alike(1, 2),
    "mish": _alike(1, 2),
    "xielu": Eager(Passes(15, 58), Passes(15, 114)),
    "tanh": _alike(1, 2),
    "sigmoid": _alike(1, 2),
    "swiglu": _alike(2, 5),
    "swiglu_clamped": _alike(7, 16),
    "swiglu_cut": _alike(4, 9),
    "geglu": _alike(2, 5),
    "geglu_new": Eager(Passes(9, 42), Passes(9, 84), Passes(10, 80)),
    "softcap": _alike(3, 6),
    "softmax": Eager(Passes(5, 28), Passes(3, 24)),
    "rope": _alike(5, 10),
}
"""Function -> what runs in its place. A function that is not here is one kernel that reads and writes what its op says.

softmax: scale, causal mask, a copy in float32, softmax, a copy back; where a model keeps its own format (GPT-2, BERT)
the copies are left out, and in 16 bits 3 kernels move 12 bytes.
"""


def eager(op: Op, width: int, cast: bool = False) -> Passes:
    """The kernels that PyTorch runs for one call of `op`, and the bytes of activations that they move.

    width: bytes of an activation, 2 or 4. cast: whether autocast runs it on a GPU. Not among the bytes: weights
    (`op.weights_read`) and what is cached.
    Scores copy queries and keys into rows of their own, keys once for each head that reads them; values likewise, and
    their result is copied to lay the heads side by side.
    Errors: Refused for another width.
    """
    if width not in (2, 4):
        raise Refused("width", "2 or 4 bytes an activation", width)
    if isinstance(op.shape, Attend):
        return Passes(3, width * _attended(op, op.shape))
    if op.function not in EAGER_KERNELS:
        return Passes(1, width * (op.reads + op.writes))
    known = EAGER_KERNELS[op.function]
    passes = known.wide if width == 4 else (cast and known.cast) or known.narrow
    return Passes(passes.kernels, passes.bytes * op.writes)


def _attended(op: Op, shape: Attend) -> Size:
    """Elements that scores or values and the copies around them move."""
    rows = shape.groups * shape.heads * shape.queries
    scores = rows * shape.keys
    of_keys = shape.groups * shape.keys * (shape.d_head if op.function == "scores" else shape.d_value)
    spread = of_keys * (1 + shape.heads) + of_keys * shape.heads
    if op.function == "scores":
        return 3 * rows * shape.d_head + spread + scores
    return scores + spread + 3 * rows * shape.d_value
