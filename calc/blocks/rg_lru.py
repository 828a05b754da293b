"""Griffin's recurrent block: a branch that remembers times a branch that opens and closes."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.sizes import exact_div, is_exactly
from calc.spec import RgLru
from calc.spec.load import Load
from calc.trace.primitives.gated_recurrence import gated_recurrence
from calc.trace.primitives.grouped_linear import grouped_linear
from calc.trace.primitives.short_convolution import short_convolution
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def rg_lru(t: Trace, spec: RgLru, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """De et al. 2024 (arXiv:2402.19427), section 2.3: 6 * d_model * d_inner FLOPs a token, and 4 * d_inner / n_blocks
    for each channel's gates; beside the convolution's."""
    width = spec.d_inner
    gate = t.activation("gate", spec.activation, t.linear("y_proj", x, width, bias=True, shard=COLUMN))
    inner = t.linear("x_proj", x, width, bias=True, shard=COLUMN)
    filters = {"shard": COLUMN, "heads": width}
    inner = short_convolution(t, "conv", inner, spec.d_conv, load, bias=True, activated=False, stepwise=True, **filters)
    # It lies channel by channel, and several sequences of it are laid token by token for the products.
    alone = is_exactly(load.batch, 1)
    laid = inner if alone else t.joined(inner, rows=inner.rows, width=width)
    block = exact_div(width, spec.n_blocks)
    opens, fades = (
        grouped_linear(t, name, laid, spec.n_blocks, block, bias=True, copied=False, shard=COLUMN)
        for name in ("input_gate", "recurrence_gate")
    )
    y = gated_recurrence(t, "recurrence", inner, opens, fades, load)
    return t.linear("o_proj", t.times("gated", y, gate), x.width, bias=True, shard=ROW)
