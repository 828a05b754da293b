"""Mamba and Mamba-2: projections, a short convolution, and a scan over a state."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.sizes import ceil_div, is_exactly
from calc.spec import Mamba, Mamba2
from calc.spec.load import Load
from calc.trace.functions import Recurrence
from calc.trace.primitives.chunked_scan import chunked_scan
from calc.trace.primitives.norm import grouped_norm
from calc.trace.primitives.recurrence import wide_gate
from calc.trace.primitives.selective_scan import selective_scan
from calc.trace.primitives.short_convolution import short_convolution
from calc.trace.shard import COLUMN, PARTIAL, ROW, fused
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def mamba(t: Trace, spec: Mamba, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Gu & Dao 2023, algorithm 2. Each token updates a state [d_inner, d_state] and reads it with one product."""
    d_inner = 2 * x.width if spec.d_inner is None else spec.d_inner
    rank = ceil_div(x.width, 16) if spec.dt_rank is None else spec.dt_rank
    whole = t.linear("in_proj", x, 2 * d_inner, bias=spec.bias, shard=COLUMN)
    inner, gate = whole.columns(d_inner), whole.columns(d_inner)
    inner = short_convolution(t, "conv", inner, spec.d_conv, load, bias=spec.conv_bias, shard=COLUMN, heads=d_inner)
    # It lies channel by channel, and several sequences of it are laid token by token for the product.
    alone = is_exactly(load.batch, 1)
    laid = inner if alone else t.joined(inner, rows=inner.rows, width=d_inner)
    small = t.linear("x_proj", laid, rank + 2 * spec.d_state, shard=PARTIAL)
    widths = {"dt_norm": rank, "b_norm": spec.d_state, "c_norm": spec.d_state}
    parts = {name: small.columns(width) for name, width in widths.items()}
    if spec.inner_norm is not None:
        parts = {name: t.norm(name, spec.inner_norm, part) for name, part in parts.items()}
    dt, b, c = parts.values()
    dt = t.linear("dt_proj", dt, d_inner, bias=True, shard=COLUMN)
    y = wide_gate(t, "gate", "silu", selective_scan(t, inner, dt, b, c, spec.d_state, load), gate)
    return t.linear("out_proj", y, x.width, bias=spec.bias, shard=ROW)


def mamba2(t: Trace, spec: Mamba2, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Dao & Gu 2024, listing 1, behind one projection to gate, x, B, C and step size, and a convolution of x, B, C.

    Multipliers of the five (Falcon-H1) are one vector as wide as the projection."""
    d_inner = spec.n_heads * spec.d_head
    shared = 2 * spec.n_groups * spec.d_state
    channels, shard = d_inner + shared, fused(spec.n_groups, shared)
    whole = t.linear("in_proj", x, d_inner + channels + spec.n_heads, bias=spec.bias, shard=shard)
    if spec.scales is not None:
        whole = t.column_scaled("scales", whole)
    gate, dt = whole.columns(d_inner), whole.columns(spec.n_heads)
    mixed = whole.columns(channels, grouped=shared)
    kernel = Recurrence("scan_convolution", spec.n_heads, spec.n_groups, spec.d_state, spec.d_head)
    own = {"heads": spec.n_heads, "groups": spec.n_groups, "recurrence": kernel}
    mixed = short_convolution(t, "conv", mixed, spec.d_conv, load, bias=spec.conv_bias, shard=shard, **own)
    y = chunked_scan(t, spec, mixed, dt, load)
    if spec.norm is None:
        y = wide_gate(t, "gate", "silu", y, gate)
    elif spec.gate == "before":
        y = grouped_norm(t, "norm", spec.norm, wide_gate(t, "gate", "silu", y, gate, wide=True), spec.n_groups)
    else:
        y = wide_gate(t, "gate", "silu", grouped_norm(t, "norm", spec.norm, y, spec.n_groups, wide=True), gate)
    return t.linear("out_proj", y, x.width, bias=spec.bias, shard=ROW)
