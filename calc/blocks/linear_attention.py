"""Linear attention, plain and lightning."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.sizes import Size, exact_div
from calc.spec import LinearAttention
from calc.spec.load import Load
from calc.trace.op import Cache
from calc.trace.primitives.linear_core import Three, divided, features, linear_core
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def linear_attention(t: Trace, spec: LinearAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Projections, feature map, products with a state [n_heads, d_head, d_head] in place of scores, output projection.

    State and output take 2 * n_heads * d_head^2 FLOPs a token each (Katharopoulos et al. 2020, equations 16 to 20).
    Cache: the state, and the running sum of keys where results are divided by it.
    """
    d_head = exact_div(x.width, spec.n_heads) if spec.d_head is None else spec.d_head
    width = spec.n_heads * d_head
    state = width * d_head if spec.norm is not None else width * (d_head + 1)
    cache = Cache(recurrent=state, heads=spec.n_heads) if spec.causal else None
    q, k, v = features(t, spec, _projected(t, spec, x, width), cache, load)
    y = linear_core(t, spec, d_head, x, (q, k, v), load)
    y = divided(t, spec, x, y, q, k, load) if spec.norm is None else t.norm("norm", spec.norm, y, across=True)
    if spec.gate:
        y = t.gated_output("gate", y, t.linear("gate_proj", x, width, shard=COLUMN))
    return t.linear("o_proj", y, x.width, bias=spec.out_bias, shard=ROW)


def _projected(t: Trace, spec: LinearAttention, x: Tensor, width: Size) -> Three:
    """Queries, keys and values."""
    if spec.fused:
        whole = t.linear("qkv_proj", x, 3 * width, bias=spec.qkv_bias, shard=COLUMN)
        return whole.columns(width), whole.columns(width), whole.columns(width)
    q, k, v = (t.linear(f"{name}_proj", x, width, bias=spec.qkv_bias, shard=COLUMN) for name in "qkv")
    return q, k, v
