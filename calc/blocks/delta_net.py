"""The gated delta net: projections, a short convolution, and the delta rule in chunks."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, norm, product
from calc.blocks.short_convolution import short_convolution
from calc.functions import Matmul
from calc.load import Load
from calc.op import Cache, Moves, Op, Part, Weight
from calc.sizes import Size, ceil_div
from calc.spec import DeltaNet


def delta_net(spec: DeltaNet, d_model: Size, load: Load) -> Part:
    """Yang et al. 2024, sections 3.2 and 3.3; layer as in Qwen3-Next.

    Queries and keys [batch, n_key_heads, seq, d_key], repeated for every value head; values and output gate
    [batch, n_value_heads, seq, d_value]; two scalars a value head and token, learning rate and decay.
    """
    d_keys, d_values = spec.n_key_heads * spec.d_key, spec.n_value_heads * spec.d_value
    mixed = 2 * d_keys + d_values
    widths = {"qkv_proj": mixed, "z_proj": d_values, "b_proj": spec.n_value_heads, "a_proj": spec.n_value_heads}
    if spec.fused:
        widths = {"qkvz_proj": mixed + d_values, "ba_proj": 2 * spec.n_value_heads}
    own = tuple(Weight(name, (spec.n_value_heads,), "ssm") for name in ("dt_bias", "A_log"))
    state = Cache(recurrent=spec.n_value_heads * spec.d_key * spec.d_value)
    given, scalars = load.tokens * d_values, 2 * load.tokens * spec.n_value_heads
    body: tuple[Op, ...] = (
        *(linear(name, load.tokens, d_model, width, "ssm") for name, width in widths.items()),
        short_convolution(mixed, spec.d_conv, load, bias=False),
        Op(
            "decay",
            "elementwise",
            "ssm",
            weights=own,
            cache=state,
            function="other",
            moves=lambda: Moves(scalars, scalars, state_writes=0 if load.decode else load.batch * state.recurrent),
        ),
        *_delta_rule(spec, load),
        norm("norm", spec.norm, (spec.d_value,), load.tokens * spec.n_value_heads, feeds=True),
        elementwise("gate", "ssm", "swiglu", 2 * given, given, from_chain=given),
        linear("out_proj", load.tokens, d_values, d_model, "ssm"),
    )
    return Part("delta_net", body)


def _delta_rule(spec: DeltaNet, load: Load) -> tuple[Op, ...]:
    """The rule as products over whole chunks, the last one filled up. Decoding one token is elementwise, 0 FLOPs.

    In each chunk keys and queries meet the keys; a triangular system turns values and keys into corrections (no
    product going forward; its gradient takes one for each); keys and queries read the state; queries read the
    corrections; and these update the state. Going back, the first chunk's empty state takes no gradient, and the last
    chunk's update has none, since nothing reads it.
    """
    heads = spec.n_value_heads
    if load.decode:
        state = load.batch * heads * spec.d_key * spec.d_value
        read = load.tokens * (2 * spec.n_key_heads * spec.d_key + heads * (spec.d_value + 2))
        step = elementwise("recurrence", "ssm", "scan", read, load.tokens * heads * spec.d_value)
        return (step.moving(state_reads=state, state_writes=state),)
    chunks = ceil_div(load.seq, spec.chunk)
    one = load.batch * spec.chunk * spec.n_value_heads
    key_pairs, value_pairs = 2 * one * spec.chunk * spec.d_key, 2 * one * spec.chunk * spec.d_value
    state = 2 * one * spec.d_key * spec.d_value
    n, c = load.batch * chunks * heads, spec.chunk
    corrected = n * c * (spec.d_key + spec.d_value)

    def of(name: str, m: Size, wide: Size, k: Size, groups: Size, flops: Size, **more: Size) -> Op:
        return product(name, "ssm", flops, Matmul(m, wide, k, groups, weighed=False), **more)

    return (
        of("chunk_scores", c, c, spec.d_key, 2 * n, 2 * chunks * key_pairs),
        Op(
            "solve",
            "attention",
            "ssm",
            backward=chunks * (key_pairs + value_pairs),
            moves=lambda: Moves(n * c * c + corrected, corrected),
        ),
        of("state_read", c, spec.d_value, spec.d_key, 2 * n, 2 * chunks * state, backward=(4 * chunks - 2) * state),
        of("chunk_values", c, spec.d_value, c, n, chunks * value_pairs),
        of("state_update", spec.d_key, spec.d_value, c, n, chunks * state, backward=2 * (chunks - 1) * state),
    )
