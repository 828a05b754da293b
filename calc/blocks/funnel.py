"""Attention of Funnel Transformer: scores of contents, of distances and of segments, summed up ahead of the softmax.

Source: Dai et al. 2020 (arXiv:2006.03236, appendix A.2); transformers 5.23, models/funnel/modeling_funnel.py.
"""

from __future__ import annotations

from calc.blocks.funnel_tables import Tables, tables
from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import FunnelAttention
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Weight
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def funnel_attention(t: Trace, spec: FunnelAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [batch * seq, d_model] -> the same. Queries of seq vectors meet as many keys, or those ahead of a halving.

    FLOPs of contents: 4 * batch * n_heads * d_head * seq * keys, values included; of segments: 4 * batch * n_heads *
    d_head * seq; of distances, as `_looked_up` and `_factorized` have them.
    """
    heads, width = spec.n_heads, spec.n_heads * spec.d_head
    source, keys = x, load.seq
    if spec.unhalved and around.stage is not None and around.stage.before is not None:
        source, keys = around.stage.before[0], around.stage.before[1].seq
    q = t.linear("q_proj", x, width)
    k, v = (t.linear(f"{name}_proj", source, width, bias=True) for name in "kv")
    q = t.scaled("query_scale", q)
    rows, found = load.batch * heads * load.seq, tables(spec, x.width, load, keys, around.stage)
    bias = t.weight("pos_bias_u", heads, spec.d_head, of="positional")
    shape = Matmul(load.seq, keys, spec.d_head, load.batch * heads, weighed=False)
    flops = 2 * rows * keys * spec.d_head
    scores = product(t, "scores", q, k, rows, keys, shape, flops, weights=(bias,))
    if spec.factorized:
        added, vectors = _factorized(t, spec, q, x.width, load, keys), ()
    else:
        vectors = (_distances(t, width, x.width, found),)
        added = _looked_up(t, spec, q, vectors[0], load, keys, found.distances)
    added, segments = _apart(t, spec, added, _segments(t, spec, q, load, keys))
    weights = t.made(rows, keys, scores, added, segments, split="tensor")
    t.op("softmax", "elementwise", "softmax", (scores, added, segments), (weights,))
    y = _values(t, spec, weights, (q, k, v, *vectors), load, keys, found)
    return t.linear("o_proj", y, x.width, bias=True)


def _distances(t: Trace, width: Size, d_model: Size, found: Tables) -> Tensor:
    """The sinusoids of all distances, which a block's layers share, projected once for all texts."""
    sinusoids = Tensor(found.distances, d_model, False, "none")
    name = f"sinusoids of {found.name}"

    def keeps(tape: Tape) -> Storage:
        known = (each for each in tape.saved if each.common == name)
        return next(known, Storage(sinusoids.elements, tape.settings.stream, False, "none", name))

    t.silent("sinusoids", (), sinusoids, keeps)
    return t.linear("pos_proj", sinusoids, width, of="positional", split="none", inside=False)


def _looked_up(
    t: Trace, spec: FunnelAttention, q: Tensor, vectors: Tensor, load: Load, keys: Size, distances: Size
) -> Tensor:
    """Each query's scores of all distances, of which each key's are looked up: 2 * batch * n_heads * d_head * seq *
    distances FLOPs."""
    rows, bias = load.batch * spec.n_heads * load.seq, _placing(t, spec)
    shape = Matmul(load.batch * load.seq, distances, spec.d_head, spec.n_heads, weighed=False)
    flops = 2 * rows * distances * spec.d_head
    found = product(t, "distance_scores", q, vectors, rows, distances, shape, flops, weights=(bias,), of="positional")
    return found.view(rows, keys)


def _factorized(t: Trace, spec: FunnelAttention, q: Tensor, d_model: Size, load: Load, keys: Size) -> Tensor:
    """Queries through each head's matrix, times sines and times cosines of their places, and both against those of
    keys' places: 2 * batch * n_heads * seq * d_model * (d_head + 2 * keys) FLOPs."""
    heads, rows = spec.n_heads, load.batch * spec.n_heads * load.seq
    weights = (_matrix(t, spec, d_model), _placing(t, spec))
    made = t.made(rows, d_model, q, weights=weights, split="tensor")
    shape = Matmul(load.batch * load.seq, d_model, spec.d_head, heads, weighed=False)
    flops = 2 * rows * d_model * spec.d_head
    inputs = {"weights": weights, "of": "positional", "flops": flops, "shape": shape}
    t.op("placed_queries", "attention", "batched_matmul", (q,), (made,), **inputs)
    found: list[Tensor] = []
    shape = Matmul(rows, keys, d_model, 1, weighed=False)
    for name in ("sines", "cosines"):
        times, places = t.made(rows, d_model, made, split="tensor"), Tensor(keys, d_model, False, "none")
        t.op(f"{name}_of_queries", "elementwise", "scale", (made,), (times,), of="positional")
        t.silent(f"{name}_of_places", (), places, lambda tape: Storage(0, tape.settings.stream, False, "none"))
        flops = 2 * rows * keys * d_model
        found.append(product(t, f"{name}_scores", times, places, rows, keys, shape, flops, of="positional"))
    both = t.made(rows, keys, *found, split="tensor")
    t.op("distance_scores", "elementwise", "add", tuple(found), (both,), of="positional")
    return both


def _segments(t: Trace, spec: FunnelAttention, q: Tensor, load: Load, keys: Size) -> Tensor:
    """Each query's scores of its own and of the other segment, of which each key's is looked up."""
    heads, rows = spec.n_heads, load.batch * spec.n_heads * load.seq
    weights = (t.weight("segment_bias", heads, spec.d_head, of="positional"), _vectors(t, spec))
    found, made = (t.made(rows, width, q, weights=weights, split="tensor") for width in (2, keys))
    shape = Matmul(load.batch * load.seq, 2, spec.d_head, heads, weighed=False)
    inputs = {"weights": weights, "of": "positional", "flops": 4 * rows * spec.d_head, "shape": shape}
    t.op("segment_scores", "attention", "batched_matmul", (q,), (found,), **inputs)
    t.op("segment_lookup", "gather", "gather", (found,), (made,), of="positional")
    return made


def _apart(t: Trace, spec: FunnelAttention, *added: Tensor) -> list[Tensor]:
    """Both without what is of the first vector, or as they are."""
    if not spec.first_apart:
        return list(added)
    made = [t.made(each.rows, each.width, each, split="tensor") for each in added]
    for name, read, left in zip(("distances_apart", "segments_apart"), added, made, strict=True):
        t.op(name, "elementwise", "scale", (read,), (left,), of="positional")
    return made


def _matrix(t: Trace, spec: FunnelAttention, d_model: Size) -> Weight:
    return t.weight("pos_proj.weight", spec.n_heads * spec.d_head, d_model, of="positional")


def _vectors(t: Trace, spec: FunnelAttention) -> Weight:
    """Those of a query's own and of the other segment."""
    return t.weight("segment_vectors", 2, spec.n_heads, spec.d_head, of="positional")


def _placing(t: Trace, spec: FunnelAttention) -> Weight:
    return t.weight("pos_bias_v", spec.n_heads, spec.d_head, of="positional")


def _values(
    t: Trace,
    spec: FunnelAttention,
    weights: Tensor,
    operands: tuple[Tensor, ...],
    load: Load,
    keys: Size,
    found: Tables,
) -> Tensor:
    """The weighted values, and what autograd keeps of all of attention's core."""
    q, v = operands[0], operands[2]
    d_model = found.d_model
    pairs, matrix = weights.elements, _matrix(t, spec, d_model)
    segments = _vectors(t, spec)

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage, *vectors: Storage) -> Storage:
        tape.written_out("attention with scores of segments")
        own = Storage(0, tape.settings.stream, True, "none")
        with tape.region("attention", q, k, v, *vectors):
            with tape.at("scores"):
                scores = tape.product(tape.like(q, own), tape.like(k), pairs)
            with tape.at("distances"):
                if vectors:
                    tape.product(tape.like(q, own), vectors[0], q.elements)
                else:
                    _against(tape, tape.like(q, own), matrix)
                    found.keep_places(tape, keys)
                found.keep_apart(tape)
            with tape.at("segments"):
                _against(tape, tape.like(q, own), segments)
                found.keep_segments(tape)
            with tape.at("softmax"):
                shares = tape.drop(tape.reads_result(scores))
            with tape.at("values"):
                return tape.like(tape.product(shares, tape.like(v), q.elements))

    shape = Matmul(load.seq, spec.d_head, keys, load.batch * spec.n_heads, weighed=False)
    flops = 2 * pairs * spec.d_head
    return product(t, "values", weights, v, q.rows, q.width, shape, flops, keeps=keeps, operands=operands)


def _against(tape: Tape, x: Storage, weight: Weight) -> None:
    """x against a weight of all heads: x is kept, and autocast's copy of the weight, which is laid out anew in each
    pass of a layer."""
    s = tape.settings
    tape.keep(tape.cast(x, s.dtype) if s.autocast else x, "factor")
    if s.autocast:
        tape.keep(Storage(weight.elements, s.dtype, False, "none", weight=weight), "cast weight")
