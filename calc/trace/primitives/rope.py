"""Rotary positions (Su et al. 2021, arXiv:2104.09864)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from calc.sizes import Size, ceil_div, floor_div, largest
from calc.spec import Rope
from calc.trace.footprint import Footprint
from calc.trace.primitives.arithmetic import of_same_heads
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def rope(t: Recorder, name: str, spec: Rope, seq: Size, d_head: Size, *tensors: Tensor) -> list[Tensor]:
    """Each of `tensors`, heads of width d_head, turned by angles of seq positions: one kernel, 0 FLOPs.

    x * cos + turned(x) * sin keeps the angles, once for all layers, and of x nothing, since they are constants.
    """
    made = of_same_heads(t, tensors)
    t.op(
        name,
        "elementwise",
        "rope",
        tensors,
        tuple(made),
        keeps=lambda tape, *reads: saved_by_rope(tape, spec, seq, d_head, *reads),
        live_bytes=lambda footprint: _taken(footprint, _turned_part(spec), tensors, made),
        tables=lambda footprint: {f"cosines and sines of {spec!r}": 2 * footprint.width * seq * _turning(spec, d_head)},
    )
    return made


def _taken(footprint: Footprint, share: Fraction, tensors: Sequence[Tensor], made: Sequence[Tensor]) -> Size:
    """x * cos + turned(x) * sin: three of the size of what turns of x, beside x and what was turned before it; where a
    part of x turns, that and the whole that is put together of it. Compiled, x is written over."""
    if footprint.compiled:
        return 0
    moments: list[Size] = []
    done: Size = 0
    for x, y in zip(tensors, made, strict=True):
        moments.append(done + footprint.of(x, max(3 * share, 1 + share if share < 1 else share)))
        done = done + footprint.of(y)
    return largest(moments)


def saved_by_rope(tape: Tape, spec: Rope, seq: Size, d_head: Size, *tensors: Storage) -> list[Storage]:
    """Cosines and sines, as wide as the stream of the first layer, and of places in a plane in fp32."""
    if any(tensor.grad for tensor in tensors):
        wide = tape.stream if spec.plane is None else "fp32"
        for name in ("cosines", "sines"):
            tape.keep_common(f"{name} of {spec!r}", name, seq * _turning(spec, d_head), wide)
    return [tape.like(tensor) for tensor in tensors]


def _turning(spec: Rope, d_head: Size) -> Size:
    """How many values of a head turn: pairs, of which an odd share has one more."""
    share = _turned_part(spec)
    if share == 1:
        return d_head
    return 2 * ceil_div(floor_div(share.numerator * d_head, share.denominator), 2)


def _turned_part(spec: Rope) -> Fraction:
    """Of a head, what turns."""
    return Fraction(1) if spec.proportional else Fraction(str(spec.fraction)).limit_denominator(4096)


def turned(t: Recorder, spec: Rope, seq: Size, d_head: Size, *tensors: Tensor, name: str = "") -> list[Tensor]:
    """As `rope` where angles are laid out anew, in fp32, for every tensor that they turn (DeepSeek-V4).

    name: of the op; none where no kernel is counted.
    """
    made = [t.made(x.rows, x.width, x, split=x.split) for x in tensors]

    def keeps(tape: Tape, *reads: Storage) -> list[Storage]:
        for read in reads:
            for role in ("cosines", "sines")[: 2 * read.grad]:
                tape.keep(Storage(seq * _turning(spec, d_head), "fp32", False, "none"), role)
        return [tape.like(read) for read in reads]

    if name:
        t.op(name, "elementwise", "rope", tensors, tuple(made), keeps=keeps)
    else:
        for x, y in zip(tensors, made, strict=True):
            t.silent("turned", (x,), y, keeps)
    return made
