"""The gated delta rule in chunks (Yang et al. 2024, sections 3.2 and 3.3). What autograd keeps of it stands in
`delta_rule_saved`."""

from __future__ import annotations

from typing import Any

from calc.sizes import Size, ceil_div
from calc.spec import DeltaNet
from calc.spec.load import Load
from calc.trace.functions import Matmul, Recurrence
from calc.trace.op import Cache, Moves, Weight
from calc.trace.primitives.delta_rule_saved import saved_by_delta_rule
from calc.trace.primitives.product import product
from calc.trace.recorder import Recorder
from calc.trace.shard import COLUMN
from calc.trace.tensor import Tensor


def delta_rule(
    t: Recorder, spec: DeltaNet, x: Tensor, mixed: Tensor, rate: Tensor, decay: Tensor, load: Load
) -> Tensor:
    """Queries, keys and values side by side (mixed), learning rates and decays [tokens, n_value_heads] -> [tokens,
    n_value_heads * d_value], in the number format of x, which the block reads."""
    heads = spec.n_value_heads
    own = tuple(t.weight(name, heads, shard=COLUMN) for name in ("dt_bias", "A_log"))
    y = t.made(mixed.rows, heads * spec.d_value, mixed, rate, decay, weights=own, split="tensor")
    scalars = _decay(t, spec, own, rate, decay, load)
    rule = {
        "keeps": lambda tape, *reads: saved_by_delta_rule(tape, spec, load, own, *reads),
        "operands": (x, mixed, rate, decay),
        "recurrence": _kernel(spec),
    }
    if load.decode:
        state = load.batch * heads * spec.d_key * spec.d_value

        def moves() -> Moves:
            return Moves(mixed.elements + scalars.elements, y.elements, state_reads=state, state_writes=state)

        # One token is elementwise, 0 FLOPs.
        t.op("recurrence", "elementwise", "scale", (mixed, scalars), (y,), moves=moves, **rule)
    else:
        with t.one_kernel("compiled", _kernel(spec, whole=False)):
            _in_chunks(t, spec, mixed, scalars, rate, y, load, rule)
    return y


def _kernel(spec: DeltaNet, whole: bool = True) -> Recurrence:
    """The rule as engines run it."""
    return Recurrence("delta_rule", spec.n_value_heads, spec.n_key_heads, spec.d_key, spec.d_value, whole)


def _decay(t: Recorder, spec: DeltaNet, own: tuple[Weight, ...], rate: Tensor, decay: Tensor, load: Load) -> Tensor:
    """Learning rates and decays of each head."""
    state = Cache(recurrent=spec.n_value_heads * spec.d_key * spec.d_value, heads=spec.n_value_heads)
    y = t.made(rate.rows, 2 * spec.n_value_heads, rate, decay, weights=own, split="tensor")
    written = 0 if load.decode else load.batch * state.recurrent
    t.op(
        "decay",
        "elementwise",
        "other",
        (rate, decay),
        (y,),
        weights=own,
        cache=state,
        moves=lambda: Moves(rate.elements + decay.elements, y.elements, state_writes=written),
    )
    return y


def _in_chunks(
    t: Recorder,
    spec: DeltaNet,
    mixed: Tensor,
    scalars: Tensor,
    rate: Tensor,
    y: Tensor,
    load: Load,
    rule: dict[str, Any],
) -> None:
    """The rule as products over whole chunks, the last one filled up.

    In each chunk keys and queries meet the keys; a triangular system turns values and keys into corrections (no
    product going forward; its gradient takes one for each); keys and queries read the state; queries read the
    corrections; and these update the state. Going back, the first chunk's empty state takes no gradient, and the last
    chunk's update has none, since nothing reads it.
    """
    chunks, c, d_key, d_value = ceil_div(load.seq, spec.chunk), spec.chunk, spec.d_key, spec.d_value
    n = load.batch * chunks * spec.n_value_heads
    pairs, state = 2 * n * c * c, 2 * n * c * d_key * d_value
    # Of the states' products, those of all chunks but one.
    later = 2 * load.batch * (chunks - 1) * spec.n_value_heads * c * d_key * d_value
    keys = mixed.columns(spec.n_key_heads * d_key)

    def shape(m: Size, wide: Size, k: Size, groups: Size) -> Matmul:
        return Matmul(m, wide, k, groups, weighed=False)

    # Of two products with keys, the one's other operand is keys times rates.
    back = (3 * int(mixed.grad) + int(mixed.grad or rate.grad)) * pairs * d_key
    scores = product(
        t, "chunk_scores", mixed, keys, 2 * n * c, c, shape(c, c, d_key, 2 * n), 2 * pairs * d_key, backward=back
    )
    solved = _solve(t, scores, scalars, mixed, (n, c, d_key, d_value))
    held = t.made(n * d_key, d_value, solved, scalars, split="tensor")
    back = int(solved.grad or mixed.grad) * 2 * state + int(held.grad) * 2 * later
    reading = shape(c, d_value, d_key, 2 * n)
    read = product(t, "state_read", solved, held, 2 * n * c, d_value, reading, 2 * state, backward=back)
    inside = product(t, "chunk_values", scores, read, n * c, d_value, shape(c, d_value, c, n), pairs * d_value)
    back = (int(mixed.grad or scalars.grad) + int(read.grad)) * later
    t.op(
        "state_update",
        "attention",
        "batched_matmul",
        (mixed, inside),
        (y,),
        flops=state,
        backward=back,
        shape=shape(d_key, d_value, c, n),
        moves=lambda: Moves(n * c * (d_key + d_value), n * d_key * d_value),
        **rule,
    )


def _solve(t: Recorder, scores: Tensor, scalars: Tensor, mixed: Tensor, sizes: tuple[Size, Size, Size, Size]) -> Tensor:
    """The triangular system of each chunk. sizes: (chunks of all heads, c, d_key, d_value)."""
    n, c, d_key, d_value = sizes
    y = t.made(n * c, d_key + d_value, scores, mixed, scalars, split="tensor")
    t.op(
        "solve",
        "attention",
        "other",
        (scores, mixed, scalars),
        (y,),
        backward=int(y.grad) * 2 * n * c * c * (d_key + d_value),
        moves=lambda: Moves(n * c * c + y.elements, y.elements),
    )
    return y
