"""Kimi delta attention: projections, a short convolution, and the delta rule with a decay for each channel."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, norm, product
from calc.blocks.short_convolution import short_convolution
from calc.functions import Matmul
from calc.load import Load
from calc.op import Cache, Moves, Op, Part, Weight
from calc.sizes import Size, ceil_div
from calc.spec import Kda


def kda(spec: Kda, d_model: Size, load: Load) -> Part:
    """Kimi Team 2025 (arXiv:2510.26692), section 3; as in transformers 5.23, models/kimi_linear.

    Queries, keys, values, decays and gates [batch, n_heads, seq, d_head], one learning rate a head and token; the state
    of a head is [d_head, d_head].
    """
    tokens, width = load.tokens, spec.n_heads * spec.d_head
    own = (Weight("dt_bias", (width,), "ssm"), Weight("A_log", (spec.n_heads,), "ssm"))
    state, one = Cache(recurrent=width * spec.d_head), tokens * width
    body: tuple[Op, ...] = (
        *(linear(f"{name}_proj", tokens, d_model, width, "ssm") for name in "qkv"),
        short_convolution(3 * width, spec.d_conv, load, bias=False),
        linear("f_a_proj", tokens, d_model, spec.d_head, "ssm"),
        linear("f_b_proj", tokens, spec.d_head, width, "ssm"),
        linear("b_proj", tokens, d_model, spec.n_heads, "ssm"),
        Op(
            "decay",
            "elementwise",
            "ssm",
            weights=own,
            cache=state,
            moves=lambda: Moves(one, one, state_writes=0 if load.decode else load.batch * state.recurrent),
        ),
        *_rule(spec, load),
        linear("g_a_proj", tokens, d_model, spec.d_head, "ssm"),
        linear("g_b_proj", tokens, spec.d_head, width, "ssm"),
        norm("norm", spec.norm, (spec.d_head,), tokens * spec.n_heads, follows=False, feeds=True),
        elementwise("gate", "ssm", "scale", 2 * one, one, from_chain=one),
        linear("o_proj", tokens, width, d_model, "ssm"),
    )
    return Part("kda", body)


def _rule(spec: Kda, load: Load) -> tuple[Op, ...]:
    """The rule over whole chunks, the last one filled up. Decoding one token is elementwise, 0 FLOPs.

    Between two tokens every channel fades by itself, so that scores of a chunk, of keys and queries against keys, are
    no product of matrices as eager PyTorch runs them: 0 FLOPs here, where kernels made for it multiply. The triangular
    system is inverted row by row, 0 FLOPs too, and its inverse multiplied with values and with keys. Then as in a delta
    net: keys and queries read the state, queries the corrections, and these update the state. Going back, the first
    chunk's empty state takes no gradient, and the last chunk's update has none.
    """
    heads, width, c = spec.n_heads, spec.d_head, spec.chunk
    if load.decode:
        state, one = load.batch * heads * width * width, load.tokens * heads * width
        step = elementwise("recurrence", "ssm", "scan", 4 * one + load.tokens * heads, one)
        return (step.moving(state_reads=state, state_writes=state),)
    chunks = ceil_div(load.seq, c)
    n = load.batch * chunks * heads
    pairs, one = 2 * n * c * c * width, 2 * load.batch * heads * c * width * width
    rows, squares = n * c * width, n * c * c

    def of(name: str, m: Size, wide: Size, k: Size, groups: Size, flops: Size, **more: Size) -> Op:
        return product(name, "ssm", flops, Matmul(m, wide, k, groups, weighed=False), **more)

    return (
        elementwise("chunk_scores", "ssm", "scan", 3 * rows + load.batch * load.seq * heads, 2 * squares),
        elementwise("inverse", "ssm", "scan", squares, squares),
        of("corrections", c, width, c, 2 * n, 2 * pairs),
        of("state_read", c, width, width, 2 * n, 2 * chunks * one, backward=(4 * chunks - 2) * one),
        of("chunk_values", c, width, c, n, pairs),
        of("state_update", width, width, c, n, chunks * one, backward=2 * (chunks - 1) * one),
    )
