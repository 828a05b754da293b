"""RWKV-7's time mixing: projections and bottlenecks of shifted tokens, and its rule in chunks."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, norm, product
from calc.blocks.token_shift import token_shift
from calc.functions import Function, Matmul
from calc.load import Load
from calc.op import Cache, Moves, Op, Part, Weight
from calc.sizes import Size, ceil_div
from calc.spec import Rwkv7

MIXES = ("mix_r", "mix_w", "mix_k", "mix_v", "mix_a", "mix_g")
"""A learned mix of each token with the one before it for receptance, decay, key, value, learning rate and gate."""


def rwkv7(spec: Rwkv7, d_model: Size, load: Load) -> Part:
    """Peng et al. 2025 (arXiv:2503.14456), section 4.1 and appendix F.

    Receptances, keys, values, decays, learning rates and gates [batch, n_heads, seq, d_head]; the state of a head is
    [d_head, d_head].
    """
    tokens, width = load.tokens, spec.n_heads * spec.d_head
    one = tokens * width

    def bottleneck(name: str, rank: Size, act: Function | None, bias: bool = True) -> tuple[Op, ...]:
        between = () if act is None else (elementwise(f"{name}_act", "ssm", act, tokens * rank, tokens * rank),)
        down = linear(f"{name}_down", tokens, d_model, rank, "ssm")
        return down, *between, linear(f"{name}_up", tokens, rank, width, "ssm", bias=bias)

    values: tuple[Op, ...] = ()
    if spec.value_rank is not None:
        mixed = elementwise("value_mix", "ssm", "other", 3 * one, one, from_chain=one)
        values = (*bottleneck("value", spec.value_rank, None), mixed)
    body: tuple[Op, ...] = (
        token_shift(MIXES, d_model, load),
        *(linear(f"{name}_proj", tokens, d_model, width, "ssm") for name in "rkv"),
        *bottleneck("decay", spec.decay_rank, "tanh"),
        *bottleneck("rate", spec.rate_rank, None),
        *values,
        *bottleneck("gate", spec.gate_rank, "sigmoid", bias=False),
        _keys(spec, load),
        *_rule(spec, load),
        norm("norm", spec.norm, (spec.n_heads, spec.d_head), tokens, feeds=True),
        elementwise(
            "bonus", "ssm", "other", 4 * one, one, weights=(_per_head("bonus", spec),), from_chain=one, to_chain=one
        ),
        elementwise("gate", "ssm", "scale", 2 * one, one, from_chain=one),
        linear("o_proj", tokens, width, d_model, "ssm"),
    )
    return Part("rwkv7", body)


def _per_head(name: str, spec: Rwkv7) -> Weight:
    return Weight(name, (spec.n_heads, spec.d_head), "ssm")


def _keys(spec: Rwkv7, load: Load) -> Op:
    """What a key removes from the state, and what it writes in its place; decay and learning rate out of logits."""
    one = load.tokens * spec.n_heads * spec.d_head
    state = Cache(recurrent=spec.n_heads * spec.d_head * spec.d_head)
    return Op(
        "keys",
        "elementwise",
        "ssm",
        weights=(_per_head("removal", spec), _per_head("replacement", spec)),
        cache=state,
        moves=lambda: Moves(3 * one, 4 * one, state_writes=0 if load.decode else load.batch * state.recurrent),
    )


def _rule(spec: Rwkv7, load: Load) -> tuple[Op, ...]:
    """The rule as products over whole chunks, the last one filled up. Decoding one token is elementwise, 0 FLOPs.

    In each chunk what reads (removed keys, receptances) meets what is written (replaced keys, keys) in one product of
    2 * chunk rows and columns; values already written are removed by a triangular system (no product going forward;
    its gradient takes one for each operand); both read the state; receptances read the chunk's own values; and these
    update the state. Going back, the first chunk's empty state takes no gradient, and the last chunk's update has none.
    """
    heads, d, c = spec.n_heads, spec.d_head, spec.chunk
    if load.decode:
        state, one = load.batch * heads * d * d, load.tokens * heads * d
        step = elementwise("recurrence", "ssm", "scan", 6 * one, one)
        return (step.moving(state_reads=state, state_writes=state),)
    chunks = ceil_div(load.seq, c)
    n = load.batch * chunks * heads
    pairs, one = 2 * n * c * c * d, 2 * load.batch * heads * c * d * d

    def of(name: str, m: Size, wide: Size, k: Size, groups: Size, flops: Size, **more: Size) -> Op:
        return product(name, "ssm", flops, Matmul(m, wide, k, groups, weighed=False), **more)

    return (
        of("chunk_scores", 2 * c, 2 * c, d, n, 4 * pairs),
        of("chunk_removed", c, d, c, n, pairs),
        Op(
            "solve",
            "attention",
            "ssm",
            backward=2 * pairs,
            moves=lambda: Moves(n * c * (c + 2 * d), 2 * n * c * d),
        ),
        of("state_read", c, d, d, 2 * n, 2 * chunks * one, backward=(4 * chunks - 2) * one),
        of("chunk_values", c, d, 2 * c, n, 2 * pairs),
        of("state_update", d, d, 2 * c, n, 2 * chunks * one, backward=4 * (chunks - 1) * one),
    )
