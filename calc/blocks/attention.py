"""Self-attention: multi-head, multi-query and grouped-query, with windows, biases, norms and sinks."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, norm
from calc.load import Load
from calc.op import Cache, Op, Part, Weight
from calc.sizes import Size, exact_div
from calc.spec import Attention, QkNorm


def attention(spec: Attention, d_model: Size, load: Load) -> Part:
    """Projections, scores, softmax, weighted values, output projection.

    Shapes: q [batch, n_heads, seq, d_head]; k, v [batch, n_kv_heads, keys, d_head]; scores [batch, n_heads, seq, keys].
    FLOPs of scores and values: 2 * batch * n_heads * d_head * pairs each (Vaswani et al. 2017, section 3.2.1).
    """
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    tokens = load.tokens
    pairs = load.batch * heads * load.twice_pairs(spec.window, spec.causal)
    body: list[Op] = []
    if spec.fused:
        width = heads * d_head + kv_heads * (d_head + d_value)
        body.append(linear("qkv_proj", tokens, d_model, width, "attention", bias=spec.qkv_bias))
    else:
        k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
        body.append(linear("q_proj", tokens, d_model, heads * d_head, "attention", bias=spec.qkv_bias))
        body.append(linear("k_proj", tokens, d_model, kv_heads * d_head, "attention", bias=k_bias))
        body.append(linear("v_proj", tokens, d_model, kv_heads * d_value, "attention", bias=spec.qkv_bias))
    if spec.qk_norm:
        body += [_qk_norm("q_norm", spec.qk_norm, heads, d_head), _qk_norm("k_norm", spec.qk_norm, kv_heads, d_head)]
    if spec.position == "rope":
        body.append(elementwise("rope", "attention"))
    cache = Cache(kv_heads * (d_head + d_value), spec.window) if spec.causal else None
    sinks = (Weight("sinks", (heads,), "attention"),) if spec.sinks else ()
    body.append(Op("scores", "attention", "attention", pairs * d_head, cache=cache))
    if spec.softcap is not None:
        body.append(elementwise("softcap", "attention"))
    body.append(Op("softmax", "elementwise", "attention", weights=sinks))
    body.append(Op("values", "attention", "attention", pairs * d_value))
    body.append(linear("o_proj", tokens, heads * d_value, d_model, "attention", bias=spec.out_bias))
    return Part("attention", tuple(body))


def cross_attention(spec: Attention, d_model: Size, d_source: Size, load: Load, source: Size) -> Part:
    """Attention of the new tokens over `source` vectors of width d_source for each sequence, an encoder's result.

    Decoding finds the source's keys and values in the cache, so their projections do not run.
    """
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    read = 0 if load.decode else load.batch * source
    pairs = 2 * load.tokens * source * heads
    k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
    cache = Cache(fixed=source * kv_heads * (d_head + d_value))
    body = (
        linear("q_proj", load.tokens, d_model, heads * d_head, "attention", bias=spec.qkv_bias),
        linear("k_proj", read, d_source, kv_heads * d_head, "attention", bias=k_bias),
        linear("v_proj", read, d_source, kv_heads * d_value, "attention", bias=spec.qkv_bias),
        Op("scores", "attention", "attention", pairs * d_head, cache=cache),
        elementwise("softmax", "attention"),
        Op("values", "attention", "attention", pairs * d_value),
        linear("o_proj", load.tokens, heads * d_value, d_model, "attention", bias=spec.out_bias),
    )
    return Part("cross_attention", body)


def head_sizes(spec: Attention, d_model: Size) -> tuple[Size, Size, Size, Size]:
    """(n_heads, n_kv_heads, d_head, d_value), the ones left None filled in from the others."""
    kv_heads = spec.n_heads if spec.n_kv_heads is None else spec.n_kv_heads
    d_head = exact_div(d_model, spec.n_heads) if spec.d_head is None else spec.d_head
    return spec.n_heads, kv_heads, d_head, d_head if spec.d_value is None else spec.d_value


def _qk_norm(name: str, spec: QkNorm, heads: Size, d_head: Size) -> Op:
    shape = {"head": (d_head,), "heads": (heads, d_head), "all": (heads * d_head,)}[spec.span]
    return norm(name, spec.norm, shape)
