"""Linear attention, plain and lightning."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.linear import elementwise, linear, norm, product
from calc.functions import Matmul
from calc.load import Load
from calc.op import Cache, Moves, Op, Part
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
    one = tokens * width
    feature_map = elementwise("feature_map", "ssm", "other", 2 * one, 2 * one)
    passing = load.batch * kept if spec.causal and not load.decode else 0
    body.append(replace(feature_map, cache=cache).moving(state_writes=passing))
    body += _causal(spec.chunk, heads, d_head, load) if spec.causal and not load.decode else _state(heads, d_head, load)
    if spec.norm is None:
        body.append(elementwise("normalize", "ssm", "scale", one + tokens * heads, one))
    else:
        body.append(norm("norm", spec.norm, (width,), tokens))
    if spec.gate:
        body.append(linear("gate_proj", tokens, d_model, width, "ssm"))
        body.append(elementwise("gate", "ssm", "swiglu", 2 * one, one))
    body.append(linear("o_proj", tokens, width, d_model, "ssm", bias=spec.out_bias))
    return Part("linear_attention", tuple(body))


def _state(heads: Size, d_head: Size, load: Load) -> list[Op]:
    """Keys against values, then queries against the state: of all tokens at once, or of the one that is decoded."""
    one = 2 * load.tokens * heads * d_head * d_head
    n, seq, state = load.batch * heads, load.seq, load.batch * heads * d_head * d_head
    update = product("state_update", "ssm", one, Matmul(d_head, d_head, seq, n, weighed=False))
    read = product("state_read", "ssm", one, Matmul(seq, d_head, d_head, n, weighed=False))
    if not load.decode:
        return [update, read]
    own = n * seq * d_head
    return [
        update.moving(writes=0, state_reads=state, state_writes=state),
        read.moving(reads=own, state_reads=state),
    ]


def _causal(chunk: Size, heads: Size, d_head: Size, load: Load) -> list[Op]:
    """Within a chunk as attention without softmax, between chunks through the state; the last chunk may be shorter.

    Going back, the empty state that the first chunk reads takes no gradient, and the last update has none.
    """
    before = ceil_div(load.seq, chunk) - 1
    last = load.seq - before * chunk
    pairs = 2 * load.batch * heads * d_head * (before * chunk * chunk + last * last)
    n = load.batch * heads
    one = 2 * n * d_head * d_head
    squares, few, all_of_it = (
        n * (before * chunk * chunk + last * last),
        minimum(load.seq, chunk),
        n * load.seq * d_head,
    )
    states, groups = n * (before + 1) * d_head * d_head, n * (before + 1)

    def of(name: str, m: Size, wide: Size, k: Size, flops: Size, reads: Size, writes: Size, **more: Size) -> Op:
        shape = Matmul(m, wide, k, groups, weighed=False)
        return product(name, "ssm", flops, shape, moves=lambda: Moves(reads, writes), **more)

    back = one * (2 * load.seq - few)
    return [
        of("chunk_scores", few, few, d_head, pairs, 2 * all_of_it, squares),
        of("chunk_values", few, d_head, few, pairs, squares + all_of_it, all_of_it),
        of("state_read", few, d_head, d_head, one * load.seq, all_of_it + states, all_of_it, backward=back),
        of(
            "state_update",
            d_head,
            d_head,
            few,
            one * load.seq,
            2 * all_of_it,
            states,
            backward=2 * one * before * chunk,
        ),
    ]
