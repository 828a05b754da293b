"""Mamba and Mamba-2: projections, a short convolution, and a scan over a state."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.linear import elementwise, linear, norm, product
from calc.blocks.short_convolution import short_convolution
from calc.functions import Matmul
from calc.load import Load
from calc.op import Cache, Moves, Op, Part, Weight
from calc.sizes import Size, ceil_div
from calc.spec import Mamba, Mamba2


def mamba(spec: Mamba, d_model: Size, load: Load) -> Part:
    """Gu & Dao 2023, algorithm 2. Each token updates a state [d_inner, d_state] and reads it with one product.

    The update is elementwise, 0 FLOPs here; the reading is 2 * d_inner * d_state a token, in a scan as in decoding.
    """
    d_inner = 2 * d_model if spec.d_inner is None else spec.d_inner
    rank = ceil_div(d_model, 16) if spec.dt_rank is None else spec.dt_rank
    tokens, state = load.tokens, d_inner * spec.d_state
    body: list[Op] = [
        linear("in_proj", tokens, d_model, 2 * d_inner, "ssm", bias=spec.bias),
        short_convolution(d_inner, spec.d_conv, load, bias=spec.conv_bias),
        linear("x_proj", tokens, d_inner, rank + 2 * spec.d_state, "ssm"),
    ]
    if spec.inner_norm is not None:
        widths = {"dt_norm": rank, "b_norm": spec.d_state, "c_norm": spec.d_state}
        body += [norm(name, spec.inner_norm, (width,), tokens, follows=False) for name, width in widths.items()]
    own = (Weight("A_log", (d_inner, spec.d_state), "ssm"), Weight("D", (d_inner,), "ssm"))
    body += [
        linear("dt_proj", tokens, rank, d_inner, "ssm", bias=True),
        Op(
            "scan",
            "attention",
            "ssm",
            2 * tokens * state,
            own,
            Cache(recurrent=state),
            function="scan",
            moves=lambda: Moves(
                2 * tokens * (d_inner + spec.d_state),
                tokens * d_inner,
                state_reads=load.batch * state if load.decode else 0,
                state_writes=load.batch * state,
            ),
        ),
        elementwise("gate", "ssm", "swiglu", 2 * tokens * d_inner, tokens * d_inner),
        linear("out_proj", tokens, d_inner, d_model, "ssm", bias=spec.bias),
    ]
    return Part("mamba", tuple(body))


def mamba2(spec: Mamba2, d_model: Size, load: Load) -> Part:
    """Dao & Gu 2024, listing 1, behind one projection to gate, x, B, C and step size, and a convolution of x, B, C."""
    d_inner = spec.n_heads * spec.d_head
    d_conv = d_inner + 2 * spec.n_groups * spec.d_state
    tokens, state = load.tokens, d_inner * spec.d_state
    own = tuple(Weight(name, (spec.n_heads,), "ssm") for name in ("dt_bias", "A_log", "D"))
    body: tuple[Op, ...] = (
        linear("in_proj", tokens, d_model, d_inner + d_conv + spec.n_heads, "ssm", bias=spec.bias),
        short_convolution(d_conv, spec.d_conv, load, bias=spec.conv_bias),
        _decay(spec, own, state, load),
        *_chunked_scan(spec, load),
        *_gated(spec, d_inner, tokens),
        linear("out_proj", tokens, d_inner, d_model, "ssm", bias=spec.bias),
    )
    return Part("mamba2", body)


def _gated(spec: Mamba2, d_inner: Size, tokens: Size) -> tuple[Op, ...]:
    """The gate on the scan's result, and the norm behind or ahead of it where there is one."""
    one = tokens * d_inner
    if spec.norm is None:
        return (elementwise("gate", "ssm", "swiglu", 2 * one, one),)
    if spec.gate == "before":
        gate = elementwise("gate", "ssm", "swiglu", 2 * one, one, to_chain=one)
        return gate, norm("norm", spec.norm, (d_inner,), tokens)
    gate = elementwise("gate", "ssm", "swiglu", 2 * one, one, from_chain=one)
    return norm("norm", spec.norm, (d_inner,), tokens, feeds=True), gate


def _decay(spec: Mamba2, own: tuple[Weight, ...], state: Size, load: Load) -> Op:
    """Step sizes and decays of each head; in decoding also the update of the state with the new token."""
    each = load.tokens * spec.n_heads
    op = Op(
        "decay", "elementwise", "ssm", weights=own, cache=Cache(recurrent=state), moves=lambda: Moves(each, 2 * each)
    )
    if not load.decode:
        return op.moving(state_writes=load.batch * state)
    token = load.tokens * (spec.n_heads * spec.d_head + spec.n_groups * spec.d_state)
    told = {"reads": each + token, "state_reads": load.batch * state, "state_writes": load.batch * state}
    return replace(op, function="scan").moving(**told)


def _chunked_scan(spec: Mamba2, load: Load) -> tuple[Op, ...]:
    """The scan as products over whole chunks, the last one filled up; B and C are laid out for every head.

    Within a chunk C against B and the result against x; each chunk's state; all states carried to all later chunks as
    one product over chunks + 1 of them; and C against the state at the chunk's start. Decoding reads the state once.
    """
    state = spec.n_heads * spec.d_head * spec.d_state
    heads, d_head, d_state = spec.n_heads, spec.d_head, spec.d_state

    def of(name: str, m: Size, wide: Size, k: Size, groups: Size, flops: Size, **more: Size) -> Op:
        return product(name, "ssm", flops, Matmul(m, wide, k, groups, weighed=False), **more)

    if load.decode:
        read = of("state_output", 1, d_head, d_state, load.tokens * heads, 2 * load.tokens * state)
        return (read.moving(reads=load.tokens * spec.n_groups * d_state, state_reads=load.batch * state),)
    chunks = ceil_div(load.seq, spec.chunk)
    padded = load.batch * chunks * spec.chunk
    pairs = 2 * padded * spec.chunk * spec.n_heads
    c, n = spec.chunk, load.batch * chunks * heads
    carried, states = 2 * load.batch * (chunks + 1) * (chunks + 1) * state, d_head * d_state
    return (
        of("chunk_scores", c, c, d_state, n, pairs * d_state),
        of("chunk_values", c, d_head, c, n, pairs * d_head),
        of("chunk_state", d_state, d_head, c, n, 2 * padded * state),
        of("carry", chunks + 1, states, chunks + 1, load.batch * heads, carried),
        of("state_output", c, d_head, d_state, n, 2 * padded * state),
    )
