"""What the gated delta net keeps."""

from __future__ import annotations

from calc.load import Load
from calc.saved.norms import norm
from calc.saved.recurrence import between, check, negative_exponential, short_convolution, spread
from calc.saved.tape import Tape, Tensor
from calc.sizes import Size, at_least, ceil_div, maximum
from calc.spec import DeltaNet


def delta_net(tape: Tape, spec: DeltaNet, d_model: Size, x: Tensor, load: Load) -> Tensor:
    """x [batch, seq, d_model]. Source: transformers' modeling_qwen3_next.py (5.23), without its kernels."""
    check(tape, "DeltaNet")
    tokens, heads = load.tokens, spec.n_value_heads
    d_values = heads * spec.d_value
    mixed, gate, b, a = _projected(tape, spec, d_model, x, tokens)
    mixed = short_convolution(tape, mixed, 2 * spec.n_key_heads * spec.d_key + d_values, spec.d_conv, load)
    with tape.at("rule"):
        # Queries and keys are laid out for every head of values.
        q, k = (
            _unit(tape, Tensor(tokens * heads * spec.d_key, "fp32", mixed.grad, "tensor"), tokens * heads) for _ in "qk"
        )
        v = tape.cast(mixed.part(tokens * d_values), "fp32")
        fading = negative_exponential(tape, heads)
        decay = spread(tape, tape.reads_input(tape.like(a, dtype="fp32")), fading, tokens * heads)
        q, rate = tape.like(q), tape.reads_result(tape.like(b, dtype="fp32"))
        rate = tape.like(rate) if spec.double_rate else rate
        with tape.region("attention", q, k, v, decay, rate):
            y = _rule(tape, spec, load, (mixed.grad, decay.grad, rate.grad))
    # Of whole chunks, a view of as many tokens as there are.
    part = y.part(tokens * d_values)
    y = part if y.dtype == x.dtype else Tensor(part.elements, x.dtype, y.grad, "tensor")
    y = norm(tape, "norm", spec.norm, y, tokens * heads)
    with tape.at("gate"):
        y = tape.times(tape.cast(y, "fp32"), tape.reads_input(tape.cast(gate, "fp32")))
    return tape.linear("out_proj", tape.cast(y, x.dtype), tokens, d_values, d_model)


def _projected(
    tape: Tape, spec: DeltaNet, d_model: Size, x: Tensor, tokens: Size
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys and values side by side, gates, and the two scalars of every head."""
    heads, d_values = spec.n_value_heads, spec.n_value_heads * spec.d_value
    d_mixed = 2 * spec.n_key_heads * spec.d_key + d_values
    if not spec.fused:
        widths = {"qkv_proj": d_mixed, "z_proj": d_values, "b_proj": heads, "a_proj": heads}
        mixed, gate, b, a = (tape.linear(name, x, tokens, d_model, each, "tensor") for name, each in widths.items())
        return mixed, gate, b, a
    whole = tape.linear("qkvz_proj", x, tokens, d_model, d_mixed + d_values, "tensor")
    both = tape.linear("ba_proj", x, tokens, d_model, 2 * heads, "tensor")
    # They lie key head by key head, and are copied apart; the gates of a single one are a view.
    mixed, gate, b, a = (
        Tensor(tokens * each, source.dtype, source.grad, "tensor")
        for source, each in ((whole, d_mixed), (whole, d_values), (both, heads), (both, heads))
    )
    single = isinstance(spec.n_key_heads, int) and spec.n_key_heads == 1
    return mixed, whole.part(gate.elements) if single else gate, b, a


def _unit(tape: Tape, x: Tensor, vectors: Size) -> Tensor:
    """Every vector with length 1."""
    length = tape.reads_result(Tensor(vectors, "fp32", tape.reads_input(x).grad, x.split))
    return tape.times(x, length)


def _rule(tape: Tape, spec: DeltaNet, load: Load, grads: tuple[bool, bool, bool]) -> Tensor:
    """A triangular system for each chunk, and then one chunk after another; all in whole chunks.

    grads: whether queries, keys and values, decays, and rates need a gradient.
    """
    chunks = ceil_div(load.seq, spec.chunk)
    rows = load.batch * spec.n_value_heads
    places = rows * chunks * spec.chunk
    mixed, fades_grad, rate_grad = grads

    def fp32(each: Size, grad: bool) -> Tensor:
        return Tensor(places * each, "fp32", grad, "tensor")

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
    return _in_order(tape, spec, rows, chunks, (q, k, inside), fades_grad, solved.grad)


def _in_order(
    tape: Tape, spec: DeltaNet, rows: Size, chunks: Size, read: tuple[Tensor, ...], fades_grad: bool, grad: bool
) -> Tensor:
    """Each chunk reads the state and writes it. The first finds an empty one, and nothing reads what the last writes.

    Autocast casts what is multiplied, each time anew. grad: whether anything that is read needs a gradient.
    """
    q, k, inside = read
    s = tape.settings
    written, state = rows * chunks * spec.chunk * spec.d_value, rows * spec.d_key * spec.d_value
    later, several = chunks - 1, at_least(chunks, 2)
    keys = rows * later * spec.chunk * spec.d_key
    kept: list[tuple[str, Size, bool]]
    if s.autocast:
        kept = [
            ("corrections that read states", keys, grad),
            ("states that corrections read", chunks * state, grad),
            ("queries", keys, grad),
            ("states", chunks * state, q.grad),
            ("scores", inside.elements, grad),
            ("what is written", written, inside.grad),
            ("keys", keys, grad),
            ("what states take in", rows * later * spec.chunk * spec.d_value, k.grad),
        ]
    else:
        kept = [
            ("states", chunks * state, grad),
            ("scores", inside.elements, grad),
            ("queries", q.elements * several, grad),
        ]
        kept += [("keys", k.elements * several, grad), ("what is written", written, inside.grad or k.grad)]
    dtype = s.dtype if s.autocast else "fp32"
    for role, elements, needed in kept:
        if needed:
            tape.keep(Tensor(elements, dtype, True, "tensor"), role)
    # The first state is empty and needs no gradient: what is left of it is kept only where decays need one.
    if grad:
        left = rows * (later if fades_grad else maximum(later - 1, 0))
        tape.keep(Tensor(left, "fp32", True, "tensor"), "what is left of states")
    if fades_grad and s.autocast:
        tape.keep(Tensor(later * state, "fp32", True, "tensor"), "states that fade")
    return Tensor(written, dtype, grad, "tensor")
