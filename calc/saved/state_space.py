"""What Mamba and Mamba-2 keep."""

from __future__ import annotations

from calc.errors import Refused
from calc.load import Load
from calc.saved.norms import norm
from calc.saved.recurrence import between, check, negative_exponential, scaled, short_convolution, spread
from calc.saved.tape import Tape, Tensor
from calc.sizes import Size, ceil_div
from calc.spec import Mamba, Mamba2


def mamba(tape: Tape, spec: Mamba, d_model: Size, x: Tensor, load: Load) -> Tensor:
    """x [batch, seq, d_model]. The scan keeps states and factors, each [batch, seq, d_inner, d_state].

    Source: transformers' modeling_mamba.py (5.23), without its kernels: steps in fp32, one state for every token.
    """
    check(tape, "Mamba")
    d_inner = 2 * d_model if spec.d_inner is None else spec.d_inner
    rank = ceil_div(d_model, 16) if spec.dt_rank is None else spec.dt_rank
    tokens = load.tokens
    whole = tape.linear("in_proj", x, tokens, d_model, 2 * d_inner, "tensor")
    x, gate = whole.part(tokens * d_inner), whole.part(tokens * d_inner)
    x = short_convolution(tape, x, d_inner, spec.d_conv, load)
    # It lies channel by channel, and several sequences of it are laid token by token for the product.
    alone = isinstance(load.batch, int) and load.batch == 1
    width = rank + 2 * spec.d_state
    small = tape.linear("x_proj", x if alone else tape.like(x), tokens, d_inner, width, "none")
    widths = {"dt_norm": rank, "b_norm": spec.d_state, "c_norm": spec.d_state}
    dt, b, c = (small.part(tokens * each) for each in widths.values())
    if spec.inner_norm is not None:
        dt, b, c = (norm(tape, name, spec.inner_norm, y, tokens) for name, y in zip(widths, (dt, b, c), strict=True))
    dt = tape.linear("dt_proj", dt, tokens, rank, d_inner, "tensor")
    with tape.at("scan"):
        dt = tape.reads_input(tape.cast(dt, "fp32"))
        x, b, c = (tape.cast(y, "fp32") for y in (x, b, c))
        a = negative_exponential(tape, d_inner * spec.d_state)
        with tape.region("attention", x, dt, a, b, c):
            y = _scan(tape, x, dt, a, b, c, tokens * d_inner * spec.d_state)
        y = tape.like(y, scaled(tape, x, d_inner))
    with tape.at("gate"):
        y = tape.times(y, tape.reads_input(tape.cast(gate, "fp32")))
    return tape.linear("out_proj", tape.cast(y, whole.dtype), tokens, d_inner, d_model)


def _scan(tape: Tape, x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, states: Size) -> Tensor:
    """Factors and updates of all tokens' states, the states, and what is read of them. states: how many numbers."""
    factor = tape.reads_result(spread(tape, dt, a, states))
    after = tape.like(factor, spread(tape, tape.times(dt, x), b, states))
    if after.grad:
        tape.keep(factor, "factor")
        tape.keep(after, "states")
    return tape.product(after, c, x.elements)


def mamba2(tape: Tape, spec: Mamba2, d_model: Size, x: Tensor, load: Load) -> Tensor:
    """x [batch, seq, d_model]. Source: transformers' modeling_mamba2.py (5.23), without its kernels, and with the
    carried states as one product."""
    check(tape, "Mamba2")
    if spec.norm is None:
        raise Refused("model", "Mamba-2 with a norm behind its gate, of which it is known what it keeps", "none")
    heads, tokens = spec.n_heads, load.tokens
    d_inner, d_shared = heads * spec.d_head, spec.n_groups * spec.d_state
    channels = d_inner + 2 * d_shared
    whole = tape.linear("in_proj", x, tokens, d_model, d_inner + channels + heads, "tensor")
    gate, mixed, dt = (whole.part(tokens * each) for each in (d_inner, channels, heads))
    mixed = short_convolution(tape, mixed, channels, spec.d_conv, load)
    x = tape.cast(mixed.part(tokens * d_inner), "fp32")
    # B and C are laid out for every head.
    b, c = (Tensor(tokens * heads * spec.d_state, "fp32", mixed.grad, "tensor") for _ in "bc")
    with tape.at("scan"):
        dt = tape.reads_input(tape.like(dt, dtype="fp32"))
        if spec.dt_min > 0 or spec.dt_max is not None:
            dt = tape.reads_input(dt)
        stepped = tape.times(x, dt)
        decay = spread(tape, dt, negative_exponential(tape, heads), tokens * heads)
        with tape.region("attention", stepped, decay, b, c):
            y = _chunks(tape, spec, load, mixed.grad)
        # Of whole chunks, a view of as many tokens as there are.
        y = tape.like(scaled(tape, x, heads), y)
    with tape.at("gate"):
        y = tape.times(y, tape.reads_input(tape.cast(gate, "fp32")))
    y = _grouped_norm(tape, spec, y, tokens, d_inner)
    return tape.linear("out_proj", tape.cast(y, gate.dtype), tokens, d_inner, d_model)


def _chunks(tape: Tape, spec: Mamba2, load: Load, grad: bool) -> Tensor:
    """Within a chunk as attention with decay, between chunks through their states; all in whole chunks.

    grad: whether what one projection makes, all that is read here, needs a gradient.
    """
    chunks = ceil_div(load.seq, spec.chunk)
    rows = load.batch * spec.n_heads
    places = rows * chunks * spec.chunk
    values, state = places * spec.d_head, spec.d_head * spec.d_state
    x, b, c = (Tensor(places * each, "fp32", grad, "tensor") for each in (spec.d_head, spec.d_state, spec.d_state))
    fading = between(tape, spec.chunk, places * spec.chunk, grad)
    scores = tape.times(tape.product(c, b, places * spec.chunk), fading)
    inside = tape.product(tape.cast(scores, "fp32"), x, values)
    left = tape.reads_result(Tensor(places, "fp32", grad, "tensor"))
    states = tape.product(tape.times(x, left), b, rows * chunks * state)
    states = Tensor(rows * (chunks + 1) * state, states.dtype, grad, "tensor")
    left = between(tape, chunks + 1, rows * (chunks + 1) * (chunks + 1), grad)
    carried = tape.product(left, states, states.elements)
    starts = Tensor(rows * chunks * state, carried.dtype, grad, "tensor")
    reached = tape.times(c, tape.reads_result(Tensor(places, "fp32", grad, "tensor")))
    return tape.like(inside, tape.product(reached, starts, values))


def _grouped_norm(tape: Tape, spec: Mamba2, x: Tensor, tokens: Size, d_inner: Size) -> Tensor:
    """An RMSNorm over each group's channels, written out in fp32."""
    with tape.at("norm"), tape.region("norm", x):
        factor = tape.reads_result(Tensor(tokens * spec.n_groups, "fp32", tape.reads_input(x).grad, "tensor"))
        y = tape.times(x, factor)
        if spec.norm is None or not spec.norm.affine:
            return y
        if y.grad:
            tape.keep(Tensor(d_inner, "fp32", False, "tensor"), "weight")
        return tape.weighed(y)
