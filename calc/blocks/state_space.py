"""Mamba and Mamba-2: projections, a short convolution, and a scan over a state."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, norm
from calc.blocks.short_convolution import short_convolution
from calc.load import Load
from calc.op import Cache, Op, Part, Weight
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
        body += [norm(name, spec.inner_norm, (width,)) for name, width in widths.items()]
    own = (Weight("A_log", (d_inner, spec.d_state), "ssm"), Weight("D", (d_inner,), "ssm"))
    body += [
        linear("dt_proj", tokens, rank, d_inner, "ssm", bias=True),
        Op("scan", "attention", "ssm", 2 * tokens * state, own, Cache(recurrent=state)),
        elementwise("gate", "ssm"),
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
        Op("decay", "elementwise", "ssm", weights=own, cache=Cache(recurrent=state)),
        *_chunked_scan(spec, load),
        norm("norm", spec.norm, (d_inner,)),
        linear("out_proj", tokens, d_inner, d_model, "ssm", bias=spec.bias),
    )
    return Part("mamba2", body)


def _chunked_scan(spec: Mamba2, load: Load) -> tuple[Op, ...]:
    """The scan as products over whole chunks, the last one filled up; B and C are laid out for every head.

    Within a chunk C against B and the result against x; each chunk's state; all states carried to all later chunks as
    one product over chunks + 1 of them; and C against the state at the chunk's start. Decoding reads the state once.
    """
    state = spec.n_heads * spec.d_head * spec.d_state
    if load.decode:
        return (Op("state_output", "attention", "ssm", 2 * load.tokens * state),)
    chunks = ceil_div(load.seq, spec.chunk)
    padded = load.batch * chunks * spec.chunk
    pairs = 2 * padded * spec.chunk * spec.n_heads
    return (
        Op("chunk_scores", "attention", "ssm", pairs * spec.d_state),
        Op("chunk_values", "attention", "ssm", pairs * spec.d_head),
        Op("chunk_state", "attention", "ssm", 2 * padded * state),
        Op("carry", "attention", "ssm", 2 * load.batch * (chunks + 1) * (chunks + 1) * state),
        Op("state_output", "attention", "ssm", 2 * padded * state),
    )
