"""Self-attention: multi-head, multi-query and grouped-query, with windows, biases, norms and sinks."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, norm
from calc.load import Load
from calc.op import Cache, Op, Part, Weight
from calc.sizes import Size, exact_div
from calc.spec.model import Attention, QkNorm


def attention(spec: Attention, d_model: Size, load: Load) -> Part:
    """Projections, scores, softmax, weighted values, output projection.

    Shapes: q [batch, n_heads, seq, d_head]; k, v [batch, n_kv_heads, keys, d_head]; scores [batch, n_heads, seq, keys].
    FLOPs of scores and values: 2 * batch * n_heads * d_head * pairs each (Vaswani et al. 2017, section 3.2.1).
    """
    heads, kv_heads, d_head = head_sizes(spec, d_model)
    tokens = load.tokens
    core = load.batch * heads * d_head * load.twice_pairs(spec.window)
    body: list[Op] = []
    if spec.fused:
        width = (heads + 2 * kv_heads) * d_head
        body.append(linear("qkv_proj", tokens, d_model, width, "attention", bias=spec.qkv_bias))
    else:
        for name, n in (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)):
            body.append(linear(name, tokens, d_model, n * d_head, "attention", bias=spec.qkv_bias))
    if spec.qk_norm:
        body += [_qk_norm("q_norm", spec.qk_norm, heads, d_head), _qk_norm("k_norm", spec.qk_norm, kv_heads, d_head)]
    if spec.position == "rope":
        body.append(elementwise("rope", "attention"))
    cache = Cache(2 * kv_heads * d_head, spec.window)
    sinks = (Weight("sinks", (heads,), "attention"),) if spec.sinks else ()
    body.append(Op("scores", "attention", "attention", core, cache=cache))
    if spec.softcap is not None:
        body.append(elementwise("softcap", "attention"))
    body.append(Op("softmax", "elementwise", "attention", weights=sinks))
    body.append(Op("values", "attention", "attention", core))
    body.append(linear("o_proj", tokens, heads * d_head, d_model, "attention", bias=spec.out_bias))
    return Part("attention", tuple(body))


def head_sizes(spec: Attention, d_model: Size) -> tuple[Size, Size, Size]:
    """(n_heads, n_kv_heads, d_head), the ones left None filled in from the others."""
    kv_heads = spec.n_heads if spec.n_kv_heads is None else spec.n_kv_heads
    d_head = exact_div(d_model, spec.n_heads) if spec.d_head is None else spec.d_head
    return spec.n_heads, kv_heads, d_head


def _qk_norm(name: str, spec: QkNorm, heads: Size, d_head: Size) -> Op:
    shape = {"head": (d_head,), "heads": (heads, d_head), "all": (heads * d_head,)}[spec.span]
    return norm(name, spec.norm, shape)
