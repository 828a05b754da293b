"""What autograd keeps of the gated delta rule.

Source: transformers' modeling_qwen3_next.py (5.23), without its kernels.
"""

from __future__ import annotations

from calc.sizes import Size, ceil_div
from calc.spec import DeltaNet
from calc.spec.load import Load
from calc.trace.op import Weight
from calc.trace.primitives.across_chunks import Walk, saved_across_chunks
from calc.trace.primitives.recurrence import between, negative_exponential, spread
from calc.trace.primitives.scan_kernels import saved_by_delta_kernel
from calc.trace.tape import Storage, Tape


def saved_by_delta_rule(
    tape: Tape,
    spec: DeltaNet,
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
        return saved_by_delta_kernel(tape, spec, load.tokens, own, mixed, rate, decay)
    tokens, heads = load.tokens, spec.n_value_heads
    step, fade = own
    with tape.at("rule"):
        # Queries and keys are laid out for every head of values.
        q, k = (
            unit(tape, Storage(tokens * heads * spec.d_key, "fp32", mixed.grad, "tensor"), tokens * heads) for _ in "qk"
        )
        v = tape.cast(mixed.part(tokens * heads * spec.d_value), "fp32")
        stepped = tape.like(decay, Storage(0, "fp32", step.trainable, "none"))
        fading = spread(tape, tape.reads_input(stepped), negative_exponential(tape, fade), tokens * heads)
        q, rate = tape.like(q), tape.reads_result(tape.like(rate, dtype="fp32"))
        rate = tape.like(rate) if spec.double_rate else rate
        with tape.region("attention", q, k, v, fading, rate):
            y = _chunks(tape, spec, load, (mixed.grad, fading.grad, rate.grad))
    # Of whole chunks, a view of as many tokens as there are.
    part = y.part(tokens * heads * spec.d_value)
    return part if y.dtype == x.dtype else Storage(part.elements, x.dtype, y.grad, "tensor")


def unit(tape: Tape, x: Storage, vectors: Size) -> Storage:
    """Every vector with length 1."""
    length = tape.reads_result(Storage(vectors, "fp32", tape.reads_input(x).grad, x.split))
    return tape.times(x, length)


def _chunks(tape: Tape, spec: DeltaNet, load: Load, grads: tuple[bool, bool, bool]) -> Storage:
    """A triangular system for each chunk, and then one chunk after another; all in whole chunks.

    grads: whether queries, keys and values, decays, and rates need a gradient.
    """
    chunks = ceil_div(load.seq, spec.chunk)
    rows = load.batch * spec.n_value_heads
    places = rows * chunks * spec.chunk
    mixed, fades_grad, rate_grad = grads

    def fp32(each: Size, grad: bool) -> Storage:
        return Storage(places * each, "fp32", grad, "tensor")

    q, k, v = (fp32(each, mixed) for each in (spec.d_key, spec.d_key, spec.d_value))
    rate = fp32(1, rate_grad)
    fading = between(tape, spec.chunk, places * spec.chunk, fades_grad)
    fades, scaled = tape.reads_result(fp32(1, fades_grad)), tape.times(k, rate)
    system = tape.times(tape.product(scaled, k, places * spec.chunk), fading)
    tape.times(v, rate)
    tape.times(scaled, fades)
    solved = fp32(spec.d_key + spec.d_value, any(grads))
    if solved.grad:
        tape.keep(system, "system")
        tape.keep(solved, "solved")
    inside = tape.times(tape.product(q, k, places * spec.chunk), fading)
    q, k = tape.times(q, fades), tape.times(k, tape.reads_result(fp32(1, fades_grad)))
    # Corrections, and what they read the state with, are views of what is solved.
    reading, written = solved.part(places * spec.d_key), solved.part(places * spec.d_value)
    walk = Walk(rows, chunks, spec.d_key * spec.d_value, 1, fades_grad)
    grad = saved_across_chunks(tape, walk, reading, q, inside, k, tape.like(written))
    return Storage(written.elements, tape.settings.dtype if tape.settings.autocast else "fp32", grad, "tensor")
