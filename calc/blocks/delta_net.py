"""The gated delta net: projections, a short convolution, and the delta rule in chunks."""

from __future__ import annotations

from typing import NamedTuple

from calc.blocks.surroundings import Surroundings
from calc.sizes import Size, is_exactly
from calc.spec import DeltaNet
from calc.spec.load import Load
from calc.trace.functions import Recurrence
from calc.trace.primitives.delta_rule import delta_rule
from calc.trace.primitives.recurrence import wide_gate
from calc.trace.primitives.short_convolution import short_convolution
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


class Projected(NamedTuple):
    """Queries, keys and values side by side, gates, and of every head of values a learning rate and a decay."""

    mixed: Tensor
    gate: Tensor
    rate: Tensor
    decay: Tensor


def delta_net(t: Trace, spec: DeltaNet, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Yang et al. 2024, sections 3.2 and 3.3; layer as in Qwen3-Next.

    Queries and keys [batch, n_key_heads, seq, d_key], repeated for every value head; values and output gate
    [batch, n_value_heads, seq, d_value]; two scalars a value head and token, learning rate and decay.
    """
    mixed, gate, rate, decay = _projected(t, spec, x)
    kernel = Recurrence("convolution", spec.n_value_heads, spec.n_key_heads, spec.d_key, spec.d_value)
    mixed = short_convolution(
        t, "conv", mixed, spec.d_conv, load, bias=False, shard=COLUMN, heads=spec.n_key_heads, recurrence=kernel
    )
    y = delta_rule(t, spec, x, mixed, rate, decay, load)
    y = t.norm("norm", spec.norm, y, each=spec.n_value_heads)
    return t.linear("out_proj", wide_gate(t, "gate", spec.gate, y, gate), x.width, shard=ROW)


def _projected(t: Trace, spec: DeltaNet, x: Tensor) -> Projected:
    heads, d_values = spec.n_value_heads, spec.n_value_heads * spec.d_value
    d_mixed = 2 * spec.n_key_heads * spec.d_key + d_values
    if not spec.fused:
        widths = {"qkv_proj": d_mixed, "z_proj": d_values, "b_proj": heads, "a_proj": heads}
        return Projected(*(t.linear(name, x, width, shard=COLUMN) for name, width in widths.items()))
    whole = t.linear("qkvz_proj", x, d_mixed + d_values, shard=COLUMN)
    both = t.linear("ba_proj", x, 2 * heads, shard=COLUMN)

    def apart(source: Tensor, width: Size) -> Tensor:
        return t.joined(source, rows=x.rows, width=width)

    # They lie key head by key head, and are copied apart; the gates of a single one are a view.
    single = is_exactly(spec.n_key_heads, 1)
    gate = whole.columns(d_values) if single else apart(whole, d_values)
    return Projected(apart(whole, d_mixed), gate, apart(both, heads), apart(both, heads))
