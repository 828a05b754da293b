"""What attention reads: queries, keys and values of the new tokens, projected, normed and turned."""

from __future__ import annotations

from typing import NamedTuple

from calc.blocks.attention_experts import routed_queries
from calc.blocks.convolved_inputs import convolved_inputs
from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, exact_div, is_exactly
from calc.spec import Attention, QkNorm
from calc.spec.load import Load
from calc.trace.primitives.norm import as_divided
from calc.trace.shard import COLUMN, fused, key_value
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


class Projected(NamedTuple):
    """Queries, keys and values of the new tokens, and a gate or None. visits: weights of the experts that queries are
    of."""

    q: Tensor
    k: Tensor
    v: Tensor
    gate: Tensor | None
    visits: Tensor | None = None


def projected(t: Trace, spec: Attention, x: Tensor, load: Load, around: Surroundings) -> Projected:
    """What the new tokens bring, or their queries alone over keys and values of an earlier layer."""
    return (_borrowing if spec.kv == "earlier" else _own)(t, spec, x, load, around)


def head_sizes(spec: Attention, d_model: Size) -> tuple[Size, Size, Size, Size]:
    """(n_heads, n_kv_heads, d_head, d_value), the ones left None filled in from the others."""
    d_head = exact_div(d_model, spec.n_heads) if spec.d_head is None else spec.d_head
    return spec.n_heads, spec.kv_heads, d_head, d_head if spec.d_value is None else spec.d_value


def _own(t: Trace, spec: Attention, x: Tensor, load: Load, around: Surroundings) -> Projected:
    """Projected, normed, cut, turned."""
    heads, kv_heads, d_head, _ = head_sizes(spec, x.width)
    if spec.convolved is not None:
        q, k, v = convolved_inputs(t, spec.convolved, (heads, kv_heads, d_head), x, load, bias=spec.qkv_bias)
        gate = visits = None
    else:
        q, k, v, gate, visits = _from_input(t, spec, x, load, around)
    before, after = (spec.qk_norm is not None and spec.qk_norm.turned is turned for turned in (False, True))
    if before:
        q, k = normed(t, spec.qk_norm, "q", q, heads), normed(t, spec.qk_norm, "k", k, kv_heads)
    if spec.clip is not None:
        q, k, v = t.clip("clip", q, k, v)
    if spec.value_scale != 1.0:
        v = t.scaled("value_scale", v)
    if spec.v_norm is not None:
        v = t.norm("v_norm", spec.v_norm, v, each=kv_heads)
    if spec.position == "rope" and not spec.rope.inputs:
        q, k = t.rope("rope", spec.rope, load.seq, d_head, q, k)
    if after:
        q, k = normed(t, spec.qk_norm, "q", q, heads), normed(t, spec.qk_norm, "k", k, kv_heads)
    return Projected(q, k, v, gate, visits)


def _from_input(t: Trace, spec: Attention, x: Tensor, load: Load, around: Surroundings) -> Projected:
    """The projections of x. A gate is a part of the queries' matrix: each head's queries and gates lie side by side."""
    heads, kv_heads, d_head, d_value = head_sizes(spec, x.width)
    queries, keys, values = heads * d_head, kv_heads * d_head, kv_heads * d_value
    wide = queries + heads * d_value if spec.gate else queries
    placed = x
    if spec.position == "added":
        placed = placed_vectors(t, x, around.places)
    elif spec.position == "rope" and spec.rope.inputs:
        (placed,) = t.rope("rope", spec.rope, load.seq, exact_div(x.width, heads), x)
    if spec.fused:
        of_keys = fused(kv_heads, keys + values)
        whole = t.linear("qkv_proj", x, wide + keys + values, bias=spec.qkv_bias, shard=of_keys)
        q, k, v = whole.columns(wide), *(whole.columns(each, "kv", kv_heads) for each in (keys, values))
    else:
        k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
        visits = None
        if spec.experts is not None:
            q, visits = routed_queries(t, spec.experts, x, queries, load)
        else:
            q = t.linear("q_proj", _by_token(t, placed, load, around), wide, bias=spec.qkv_bias, shard=COLUMN)
        k = t.linear("k_proj", _by_token(t, placed, load, around), keys, bias=k_bias, shard=key_value(kv_heads))
        v = k
        if spec.kv == "own":
            read = _by_token(t, x, load, around)
            v = t.linear("v_proj", read, values, bias=spec.qkv_bias, shard=key_value(kv_heads))
        if visits is not None:
            return Projected(q, k, v, None, visits)
    if not spec.gate:
        return Projected(q, k, v, None)
    gate = t.joined(q, rows=q.rows, width=heads * d_value)
    return Projected(t.joined(q, rows=q.rows, width=queries), k, v, gate)


def _by_token(t: Trace, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x as a product reads it: a copy where its channels lie apart and there are several sequences."""
    plain = not around.by_channel or is_exactly(load.batch, 1)
    return x if plain else t.joined(x, rows=x.rows, width=x.width)


def placed_vectors(t: Trace, x: Tensor, places: Tensor | None) -> Tensor:
    """x with what tells its vectors apart, where the front gives any."""
    return x if places is None else t.placed(x, places)


def _borrowing(t: Trace, spec: Attention, x: Tensor, load: Load, around: Surroundings) -> Projected:
    """Queries alone, over keys and values of an earlier layer. Errors: Refused for what no model has beside them."""
    if spec.gate or spec.clip is not None or spec.position not in ("rope", "none"):
        raise Refused("model", "borrowed keys without gate, clip or added positions", "some")
    heads, _, d_head, _ = head_sizes(spec, x.width)
    q = t.linear("q_proj", x, heads * d_head, bias=spec.qkv_bias, shard=COLUMN)
    if spec.qk_norm is not None and not spec.qk_norm.turned:
        q = normed(t, spec.qk_norm, "q", q, heads)
    if spec.position == "rope":
        (q,) = t.rope("rope", spec.rope, load.seq, d_head, q)
    if spec.qk_norm is not None and spec.qk_norm.turned:
        q = normed(t, spec.qk_norm, "q", q, heads)
    k, v = around.borrowed(spec.window)
    return Projected(q, k, v, None)


def normed(t: Trace, spec: QkNorm | None, of: str, x: Tensor, heads: Size, name: str | None = None) -> Tensor:
    """Queries or keys through their norm. name: of the op, where the layer runs the norm a second time."""
    assert spec is not None
    key, name = f"{of}_norm", name or f"{of}_norm"
    match spec.span:
        case "head":
            return t.norm(name, spec.norm, x, each=heads, key=key)
        case "heads" | "each":
            apart = spec.span == "each"
            return t.norm(name, spec.norm, x, heads=heads, key=key, shard=as_divided(x), apart=apart)
        case _:
            return t.norm(name, spec.norm, x, key=key, across=True)
