"""A recording by hand: what is given, and what autograd keeps of all of it."""

from __future__ import annotations

from calc.trace.op import Op
from calc.trace.settings import Settings
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

PLAIN = Settings("eager", "fp32")


def given(rows: int, width: int, *, grad: bool = True) -> Tensor:
    """A tensor that the recording begins with."""
    return Tensor(rows, width, grad)


def ops(t: Trace) -> list[Op]:
    """What was recorded, where it stands in no part."""
    return [child for child in t.body if isinstance(child, Op)]


def run(t: Trace, *inputs: Tensor, settings: Settings = PLAIN) -> tuple[Tape, dict[Tensor, Storage]]:
    """The tape of a recording without parts, and the storage of every tensor."""
    tape = Tape(settings)
    found = {x: Storage(x.elements, settings.stream, x.grad) for x in inputs}
    for op in ops(t):
        if op.keeps is None:
            continue
        with tape.at(op.name):
            made = op.keeps(tape, *(storage(x, found) for x in (op.operands or op.inputs)))
        found.update(zip(op.outputs, made if isinstance(made, list) else [made], strict=True))
    return tape, found


def storage(x: Tensor, found: dict[Tensor, Storage]) -> Storage:
    """The storage of a tensor; that of a view is a part of another's."""
    if x in found or x.viewed is None:
        return found[x]
    return storage(x.viewed, found).part(x.elements, x.split, x.heads)


def kept(tape: Tape) -> int:
    """Bytes of everything that is kept."""
    return sum(saved.tensor.bytes for saved in tape.saved.values())
