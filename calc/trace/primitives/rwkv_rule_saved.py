"""What autograd keeps of RWKV-7's rule in chunks, operation by operation as `reference_models` runs it."""

from __future__ import annotations

from calc.sizes import Size, ceil_div
from calc.spec import Rwkv7
from calc.spec.load import Load
from calc.trace.primitives.across_chunks import Walk, saved_across_chunks
from calc.trace.tape import Storage, Tape


def saved_by_rwkv_rule(tape: Tape, spec: Rwkv7, load: Load, *read: Storage) -> Storage:
    """read: receptances, decays, keys, values, what is removed and what is written in its place, all in fp32."""
    with tape.at("rule"), tape.region("attention", *read):
        y = _chunks(tape, spec, load, tuple(x.grad for x in read))
    # Of whole chunks, a view of as many tokens as there are.
    return y.part(load.tokens * spec.n_heads * spec.d_head)


def _chunks(tape: Tape, spec: Rwkv7, load: Load, grads: tuple[bool, ...]) -> Storage:
    """A triangular system for each chunk, and then one chunk after another; all in whole chunks.

    Every argument is laid out anew for it. grads: whether each needs a gradient.
    """
    c, d, chunks = spec.chunk, spec.d_head, ceil_div(load.seq, spec.chunk)
    rows = load.batch * spec.n_heads
    places = rows * chunks * c
    fades = grads[1]
    r, _, k, v, a, b = (Storage(places * d, "fp32", grad, "tensor") for grad in grads)

    def faded(twice: bool = False) -> Storage:
        return tape.reads_result(Storage(places * d * (2 if twice else 1), "fp32", fades, "tensor"))

    ahead, reading = tape.times(a, faded()), tape.times(r, faded())
    reads = Storage(2 * places * d, "fp32", ahead.grad or reading.grad, "tensor")
    writes = Storage(2 * places * d, "fp32", b.grad or k.grad, "tensor")
    scores = tape.cast(tape.product(reads, tape.times(writes, faded(twice=True)), places * 4 * c), "fp32")
    inside = tape.times(scores.part(places * 2 * c), Storage(2 * c * c, "fp32", False, "none"))
    known = tape.product(Storage(places * c, "fp32", scores.grad, "tensor"), v, places * d)
    solved = _solved(tape, Storage(places * c, "fp32", scores.grad, "tensor"), places * d, known.grad or ahead.grad)
    left = tape.times(writes, faded(twice=True))
    u = Storage(2 * places * d, "fp32", solved.grad or v.grad, "tensor")
    walk = Walk(rows, chunks, d * d, d, fades)
    grad = saved_across_chunks(tape, walk, solved.part(places * d), reads.part(places * d), inside, left, u)
    return Storage(places * d, tape.settings.dtype if tape.settings.autocast else "fp32", grad, "tensor")


def _solved(tape: Tape, system: Storage, one: Size, right: bool) -> Storage:
    """The solution for two right sides of `one` elements each; right: whether these need a gradient."""
    solved = Storage(2 * one, "fp32", system.grad or right, "tensor")
    if solved.grad:
        tape.keep(system, "system")
        tape.keep(solved, "solved")
    return solved
