"""What autograd keeps of the delta rule with a decay for each channel.

Source: transformers' modeling_kimi_linear.py (5.23), without its kernels: of every pair of tokens in a chunk it holds
d_head numbers.
"""

from __future__ import annotations

from calc.sizes import Size, at_least, ceil_div, exact_div, is_exactly
from calc.spec import Kda
from calc.spec.load import Load
from calc.trace.op import Weight
from calc.trace.primitives.across_chunks import Walk, saved_across_chunks
from calc.trace.primitives.delta_rule_saved import unit
from calc.trace.primitives.recurrence import between, exponential, negative_exponential, spread
from calc.trace.primitives.scan_kernels import saved_by_channel_kernel
from calc.trace.tape import Storage, Tape


def saved_by_channel_rule(
    tape: Tape,
    spec: Kda,
    load: Load,
    own: tuple[Weight, ...],
    x: Storage,
    mixed: Storage,
    rate: Storage,
    decay: Storage,
) -> Storage:
    """Units of queries and keys, decays and rates, and the rule in chunks; the result in x's format. Where one kernel
    computes it, that of `scan_kernels`."""
    if tape.settings.fused:
        return saved_by_channel_kernel(tape, spec, load.tokens, own, mixed, rate, decay)
    elements, vectors = load.tokens * spec.n_heads * spec.d_head, load.tokens * spec.n_heads
    step = own[0]
    with tape.at("rule"):
        q, k, v = (tape.cast(mixed.part(elements), "fp32") for _ in "qkv")
        q, k = tape.like(unit(tape, q, vectors)), unit(tape, k, vectors)
        stepped = tape.like(decay, Storage(0, "fp32", step.trainable, "none"))
        fading = _fading(tape, spec, stepped, own[1], elements)
        rate = tape.reads_result(tape.like(rate, dtype="fp32"))
        with tape.region("attention", q, k, v, fading, rate):
            y = _chunks(tape, spec, load, (mixed.grad, fading.grad, rate.grad))
    # Of whole chunks, a view of as many tokens as there are.
    part = y.part(elements)
    return part if y.dtype == x.dtype else Storage(part.elements, x.dtype, y.grad, "tensor")


def _fading(tape: Tape, spec: Kda, stepped: Storage, weight: Weight, elements: Size) -> Storage:
    """Logarithms of decays: a softplus times a rate a head, or a sigmoid of that product, bounded."""
    if spec.bound is None:
        return spread(tape, tape.reads_input(stepped), negative_exponential(tape, weight), elements)
    return tape.like(tape.reads_result(spread(tape, stepped, exponential(tape, weight), elements)))


def _chunks(tape: Tape, spec: Kda, load: Load, grads: tuple[bool, bool, bool]) -> Storage:
    """A triangular system for each chunk, and then one chunk after another; all in whole chunks.

    grads: whether queries, keys and values, decays, and rates need a gradient.
    """
    c, d, chunks = spec.chunk, spec.d_head, ceil_div(load.seq, spec.chunk)
    rows = load.batch * spec.n_heads
    places = rows * chunks * c
    mixed, fades, rated = grads

    def fp32(each: Size, grad: bool) -> Storage:
        return Storage(places * each, "fp32", grad, "tensor")

    def scores(a: Storage, b: Storage) -> Storage:
        return Storage(places * c, "fp32", tape.times(spread(tape, a, b, places * c * d), fading).grad, "tensor")

    q, k, v = (fp32(d, mixed) for _ in "qkv")
    rate = fp32(1, rated)
    fading = between(tape, c, places * c * d, fades)
    scaled = tape.times(k, rate)
    inverse, faded = _inverse(tape, c, scores(scaled, k)), tape.reads_result(fp32(d, fades))
    written = tape.product(inverse, tape.times(v, rate), places * d)
    reading = tape.product(inverse, tape.times(scaled, faded), places * d)
    inside = scores(q, k)
    k, q = tape.times(k, tape.reads_result(fp32(d, fades))), tape.times(q, faded)
    walk = Walk(rows, chunks, d * d, d, fades)
    grad = saved_across_chunks(tape, walk, reading, q, inside, k, tape.like(written, reading))
    return Storage(places * d, tape.settings.dtype if tape.settings.autocast else "fp32", grad, "tensor")


def _inverse(tape: Tape, c: Size, system: Storage) -> Storage:
    """Row by row: of each but the first, the rows above it; and from the third on, which of these need a gradient, the
    system's own."""
    inverse = Storage(system.elements, "fp32", system.grad and not is_exactly(c, 1), "tensor")
    if inverse.grad:
        tape.keep(Storage(exact_div(system.elements * (c - 1), 2), "fp32", True, "tensor"), "rows above each")
        tape.keep(Storage(system.elements * at_least(c, 3), "fp32", True, "tensor"), "system")
    return inverse
