"""Linear attention, plain and lightning."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, norm
from calc.load import Load
from calc.op import Cache, Op, Part
from calc.sizes import Size, ceil_div, exact_div, minimum
from calc.spec import LinearAttention


def linear_attention(spec: LinearAttention, d_model: Size, load: Load) -> Part:
    """Projections, feature map, products with a state [n_heads, d_head, d_head] in place of scores, output projection.

    State and output take 2 * n_heads * d_head^2 FLOPs a token each (Katharopoulos et al. 2020, equations 16 to 20).
    Cache: the state, and the running sum of keys where results are divided by it.
    """
    heads = spec.n_heads
    d_head = exact_div(d_model, heads) if spec.d_head is None else spec.d_head
    tokens, width = load.tokens, heads * d_head
    body: list[Op] = []
    names = {"qkv_proj": 3 * width} if spec.fused else {f"{name}_proj": width for name in "qkv"}
    body += [linear(name, tokens, d_model, each, "ssm", bias=spec.qkv_bias) for name, each in names.items()]
    kept = width * d_head if spec.norm is not None else width * (d_head + 1)
    cache = Cache(recurrent=kept) if spec.causal else None
    body.append(Op("feature_map", "elementwise", "ssm", cache=cache))
    body += _causal(spec.chunk, heads, d_head, load) if spec.causal and not load.decode else _state(width, d_head, load)
    body.append(elementwise("normalize", "ssm") if spec.norm is None else norm("norm", spec.norm, (width,)))
    if spec.gate:
        body.append(linear("gate_proj", tokens, d_model, width, "ssm"))
    body.append(linear("o_proj", tokens, width, d_model, "ssm", bias=spec.out_bias))
    return Part("linear_attention", tuple(body))


def _state(width: Size, d_head: Size, load: Load) -> list[Op]:
    """Keys against values, then queries against the state: of all tokens at once, or of the one that is decoded."""
    product = 2 * load.tokens * width * d_head
    return [Op("state_update", "attention", "ssm", product), Op("state_read", "attention", "ssm", product)]


def _causal(chunk: Size, heads: Size, d_head: Size, load: Load) -> list[Op]:
    """Within a chunk as attention without softmax, between chunks through the state; the last chunk may be shorter.

    Going back, the empty state that the first chunk reads takes no gradient, and the last update has none.
    """
    before = ceil_div(load.seq, chunk) - 1
    last = load.seq - before * chunk
    pairs = 2 * load.batch * heads * d_head * (before * chunk * chunk + last * last)
    one = 2 * load.batch * heads * d_head * d_head
    return [
        Op("chunk_scores", "attention", "ssm", pairs),
        Op("chunk_values", "attention", "ssm", pairs),
        Op("state_read", "attention", "ssm", one * load.seq, backward=one * (2 * load.seq - minimum(load.seq, chunk))),
        Op("state_update", "attention", "ssm", one * load.seq, backward=2 * one * before * chunk),
    ]
