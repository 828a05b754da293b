"""What autograd keeps of delta rules' walk from chunk to chunk, once each chunk is solved by itself.

Each chunk corrects what it writes by the state at its start, u = written - reading state; gives q state + inside u; and
leaves fade * state + k' u. The first finds an empty state, and nothing reads what the last leaves.
"""

from __future__ import annotations

from typing import NamedTuple

from calc.sizes import Size, at_least, exact_div, maximum
from calc.trace.tape import Storage, Tape


class Walk(NamedTuple):
    """rows: heads of all sequences, each with so many chunks and a state of so many elements. left: the numbers by
    which one state fades at a step; fades: whether these need a gradient."""

    rows: Size
    chunks: Size
    state: Size
    left: Size
    fades: bool


def saved_across_chunks(
    tape: Tape, walk: Walk, reading: Storage, q: Storage, inside: Storage, k: Storage, u: Storage
) -> bool:
    """Keep it, and say whether results need a gradient. Each storage is of all chunks together.

    Autocast casts what is multiplied and is not in the format of products, each time anew, and states always.
    """
    s, later = tape.settings, walk.chunks - 1
    carried = k.grad or u.grad or walk.fades
    if carried:
        _keep_slices(tape, walk, reading, later, "what corrections read states with")
        _keep_slices(tape, walk, q, later, "queries")
    states = walk.rows * walk.chunks * walk.state
    if s.autocast:
        for needed, role in ((reading.grad, "states that corrections read"), (q.grad, "states")):
            if needed:
                tape.keep(Storage(states, s.dtype, True, "tensor"), role)
    elif reading.grad or q.grad:
        tape.keep(Storage(states, "fp32", True, "tensor"), "states")
    if u.grad:
        _keep_slices(tape, walk, inside, walk.chunks, "scores")
        _keep_slices(tape, walk, k, later, "keys")
    if inside.grad:
        _keep_slices(tape, walk, u, walk.chunks, "what is written")
    if k.grad and (_is_cast(tape, u) or not inside.grad):
        _keep_slices(tape, walk, u, later, "what states take in")
    _keep_fading(tape, walk, carried)
    return carried or inside.grad or q.grad


def _keep_fading(tape: Tape, walk: Walk, carried: bool) -> None:
    """The empty first state needs no gradient: what is left of it is kept only where decays need one."""
    later = walk.chunks - 1
    if carried:
        steps = later if walk.fades else maximum(later - 1, 0)
        tape.keep(Storage(walk.rows * steps * walk.left, "fp32", True, "tensor"), "what is left of states")
    if walk.fades and tape.settings.autocast:
        tape.keep(Storage(walk.rows * later * walk.state, "fp32", True, "tensor"), "states that fade")


def _is_cast(tape: Tape, x: Storage) -> bool:
    return tape.settings.autocast and x.dtype != tape.settings.dtype


def _keep_slices(tape: Tape, walk: Walk, x: Storage, n: Size, role: str) -> None:
    """What `n` of all chunks read of x: a cast of each slice, or views, with which the whole of it stays."""
    if _is_cast(tape, x):
        elements = exact_div(x.elements * n, walk.chunks)
        tape.keep(Storage(elements, tape.settings.dtype, True, "tensor"), role)
    elif (x.base or x) not in tape.saved:
        some = 1 if n is walk.chunks else at_least(walk.chunks, 2)
        tape.keep(Storage((x.base or x).elements * some, x.dtype, True, "tensor"), role)
