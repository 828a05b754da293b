"""Kimi delta attention: projections, a short convolution, and the delta rule with a decay for each channel."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import Kda
from calc.spec.load import Load
from calc.trace.functions import Recurrence
from calc.trace.primitives.channel_rule import channel_rule
from calc.trace.primitives.recurrence import wide_gate
from calc.trace.primitives.short_convolution import short_convolution
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def kda(t: Trace, spec: Kda, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Kimi Team 2025 (arXiv:2510.26692), section 3; as in transformers 5.23, models/kimi_linear.

    Queries, keys, values, decays and gates [batch, n_heads, seq, d_head], one learning rate a head and token; the state
    of a head is [d_head, d_head]. The convolution is over queries, keys and values side by side.
    """
    width = spec.n_heads * spec.d_head
    projected = [t.linear(f"{name}_proj", x, width, shard=COLUMN) for name in "qkv"]
    mixed = t.joined(*projected, rows=x.rows, width=3 * width)
    kernel = Recurrence("convolution", spec.n_heads, spec.n_heads, spec.d_head, spec.d_head)
    mixed = short_convolution(
        t, "conv", mixed, spec.d_conv, load, bias=False, shard=COLUMN, heads=spec.n_heads, recurrence=kernel
    )
    decay = _projected(t, spec, "f", x, width)
    rate = t.linear("b_proj", x, spec.n_heads, shard=COLUMN)
    y = channel_rule(t, spec, x, mixed, rate, decay, load)
    y = t.norm("norm", spec.norm, y, each=spec.n_heads)
    gate = _projected(t, spec, "g", x, width)
    return t.linear("o_proj", wide_gate(t, "gate", "sigmoid", y, gate), x.width, shard=ROW)


def _projected(t: Trace, spec: Kda, name: str, x: Tensor, width: Size) -> Tensor:
    """x [tokens, d_model] -> [tokens, width], through d_head values where there is a bottleneck."""
    if not spec.bottleneck:
        return t.linear(f"{name}_proj", x, width, shard=COLUMN)
    small = t.linear(f"{name}_a_proj", x, spec.d_head, split="none")
    return t.linear(f"{name}_b_proj", small, width, shard=COLUMN)
