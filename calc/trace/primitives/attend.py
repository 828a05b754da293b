"""The core of every attention: scores, softmax, weighted values.

As three kernels they write the scores and the weights [batch, n_heads, seq, keys] to memory and read them again; as one
(Dao et al. 2022, arXiv:2205.14135) they do not. What autograd keeps of them stands in
`attend_saved`, what is live of them where nothing is kept in `attend_live`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calc.sizes import Size, at_least, is_exactly
from calc.spec import Buckets, Shaw
from calc.trace.functions import Attend, Matmul
from calc.trace.op import Cache, Moves
from calc.trace.primitives.attend_live import PLAIN, Core, Scoring
from calc.trace.primitives.attend_saved import Scores, Square, Vectors, saved_by_attention
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def attend(
    t: Recorder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    shape: Attend,
    square: Square,
    twice_pairs: Size,
    scoring: Scoring = PLAIN,
    *,
    cached: Size = 0,
    cache: Cache | None = None,
    uncached: Size = 0,
    moves: Callable[[], Moves] | None = None,
    latent: bool = False,
) -> Tensor:
    """softmax(q k') v: [batch * seq, heads * d_value].

    q [batch * seq, heads * d_head]; k and v, as wide as their heads are, of the new tokens (and, where they stand
    before them, of a prefix). shape: of the products; square: the same sizes, told apart where they are the same by
    description. twice_pairs: twice the query-key pairs that are counted, of all heads: twice_pairs * d_head FLOPs for
    scores and twice_pairs * d_value for values, a multiply-accumulate being two. scoring: what becomes of the scores
    before and in their softmax. cached: how many keys of each group stand in the cache. cache: what is kept for later
    tokens; uncached: of the new keys, those that are weights and are not kept.
    moves: what scores move, where that is not queries, keys and values of the new tokens and those in the cache.
    latent: values are (part of) the keys, which one kernel reads only once.
    """
    live = not t.dead and any(x.grad for x in (q, k, v))
    core = Core(shape, square, scoring)
    moves = moves or (lambda: _of_scores(shape, cached, cache, uncached))
    scores = _products(t, core, q, k, twice_pairs, cache, moves, live)
    t.hold(q, k, v)
    weights = _weights(t, core, scores, _added(t, q, k, scores, core, twice_pairs, live))
    out = t.made(q.rows, square.heads * shape.d_value, weights, v, split="tensor")
    of_distances = scoring.shaw if scoring.shaw is not None and scoring.shaw.values else None
    t.op(
        "values",
        "attention",
        "values",
        (weights, v),
        (out,),
        flops=twice_pairs * shape.d_value,
        shape=shape,
        moves=lambda: _of_values(shape, cached, latent),
        live=live,
        live_bytes=lambda room: core.values(room, out),
        **({} if of_distances else _rule(t, q, k, v, square, scoring)),
    )
    if of_distances is None:
        return out
    whole = t.made(out.rows, out.width, out, weights, split="tensor")
    flops = twice_pairs * shape.d_value
    product = Matmul(shape.groups * shape.heads, shape.d_value, shape.keys, shape.queries)
    rule = _rule(t, q, k, v, square, scoring)
    _by_distance(t, "relative_value", of_distances, (weights, out), whole, shape.d_value, flops, product, rule)
    return whole


def _products(
    t: Recorder,
    core: Core,
    q: Tensor,
    k: Tensor,
    twice_pairs: Size,
    cache: Cache | None,
    moves: Callable[[], Moves],
    live: bool,
) -> Tensor:
    """The scores: every query's product with each of its keys."""
    scores = core.made(t, q, k)
    t.op(
        "scores",
        "attention",
        "scores",
        (q, k),
        (scores,),
        flops=twice_pairs * core.shape.d_head,
        cache=cache,
        shape=core.shape,
        moves=moves,
        live=live,
        live_bytes=lambda room: core.repeated(room) + room.of(scores),
        tables=core.mask,
    )
    return scores


def _weights(t: Recorder, core: Core, scores: Tensor, added: list[Tensor]) -> Tensor:
    """The softmax of the scores and what is added to them, through a cap where there is one."""
    if core.scoring.softcap:
        capped = core.made(t, scores)
        t.op("softcap", "elementwise", "softcap", (scores,), (capped,), live_bytes=core.softcap)
        scores = capped
    sinks = () if core.scoring.sinks is None else (core.scoring.sinks,)
    weights = core.made(t, scores, *added, weights=sinks)
    t.op("softmax", "elementwise", "softmax", (scores, *added), (weights,), weights=sinks, live_bytes=core.softmax)
    t.give_back(weights)
    return weights


def matrix(shape: Attend) -> Size:
    """Elements of the scores of all heads, hidden ones too."""
    return shape.groups * shape.heads * shape.queries * shape.keys


def _of_scores(shape: Attend, cached: Size, cache: Cache | None, uncached: Size) -> Moves:
    new = shape.groups * (shape.keys - cached)
    appended = 0 if cache is None else (new - shape.groups * uncached) * (shape.d_head + shape.d_value)
    return Moves(
        shape.groups * shape.heads * shape.queries * shape.d_head + new * shape.d_head,
        matrix(shape),
        cache_reads=shape.groups * cached * shape.d_head,
        cache_writes=appended,
    )


def _of_values(shape: Attend, cached: Size, latent: bool) -> Moves:
    new = shape.groups * (shape.keys - cached) * shape.d_value
    return Moves(
        matrix(shape) + new,
        shape.groups * shape.heads * shape.queries * shape.d_value,
        cache_reads=0 if latent else shape.groups * cached * shape.d_value,
        again=new if latent else 0,
    )


def _added(
    t: Recorder, q: Tensor, k: Tensor, scores: Tensor, core: Core, twice_pairs: Size, live: bool
) -> list[Tensor]:
    """What is added to the scores before their softmax. live: whether backward passes any of the core, which is then
    run again as a whole where it is checkpointed, products that need no gradient among it."""
    shape, square, scoring = core.shape, core.square, core.scoring
    made: list[Tensor] = []
    if scoring.distances is not None:
        made.append(_distance_scores(t, q, scoring, scoring.distances, scores, square, live or None))
    for name, x, vectors in zip(("query", "key"), (q, k), scoring.of_distances, strict=True):
        if vectors is not None:
            made.append(_looked_up(t, name, x, vectors, scores, square, live or None))
    if scoring.shaw is not None:
        found = t.made(scores.rows, scores.width, q, split="tensor")
        flops = twice_pairs * shape.d_head
        product = Matmul(shape.groups * shape.heads, shape.keys, shape.d_head, shape.queries)
        _by_distance(t, "relative_key", scoring.shaw, (q,), found, shape.d_head, flops, product, {"live": live or None})
        made.append(found)
    if scoring.bias is not None:
        made.append(scoring.bias)
    elif scoring.buckets is not None:
        made.append(relative_bias(t, scoring.buckets, square.heads, shape.queries, shape.keys))
    return made


def relative_bias(
    t: Recorder, spec: Buckets, heads: Size, queries: Size, keys: Size, *, name: str = "relative_bias"
) -> Tensor:
    """T5's table [n_buckets, n_heads] of numbers added to the scores [n_heads, queries, keys]; a lookup, 0 FLOPs.

    The table is small and looked up many times: it is read from memory once. Which rows are read is kept by whoever
    keeps the table: beside the layers where it stands there, else with the scores.
    """
    weight = t.weight(f"{name}.weight", spec.n_buckets, heads, of="positional")
    found = t.made(heads * queries, keys, weights=(weight,))
    t.op(
        name,
        "gather",
        "gather",
        (),
        (found,),
        weights=(weight,),
        of="positional",
        moves=lambda: Moves(0, found.elements),
        keeps=(lambda tape: _shared_table(tape, found, queries * keys, weight.trainable)) if spec.shared else None,
    )
    return found


def _shared_table(tape: Tape, found: Tensor, distances: Size, trained: bool) -> Storage:
    if trained:
        tape.keep(Storage(distances, "int64", False, "none"), "distances")
    return Storage(found.elements, tape.settings.stream, trained)


def _distance_scores(
    t: Recorder, q: Tensor, scoring: Scoring, vectors: Tensor, scores: Tensor, square: Square, live: bool | None
) -> Tensor:
    """Every query's product with each of 2 * seq - 1 projected distances, or of 2 * seq that its sequence has.

    Two learned vectors a head are added to the queries, one before these products and one before those with the keys
    (Dai et al. 2019, arXiv:1901.02860, section 3.3).
    """
    heads, distances = square.heads, 2 * square.seq if scoring.of_each else vectors.rows
    biases = tuple(t.weight(f"pos_bias_{name}", heads, square.d_key, of="positional") for name in ("u", "v"))
    found = t.made(square.rows * square.seq, distances, q, vectors, split="tensor")
    t.op(
        "distance_scores",
        "attention",
        "batched_matmul",
        (q, vectors),
        (found,),
        weights=biases,
        of="positional",
        flops=2 * square.rows * square.seq * distances * square.d_key,
        shape=Matmul(square.seq, distances, square.d_key, square.rows, weighed=False),
        live=live,
    )
    # Each key's are looked up among those of all distances.
    return found.view(scores.rows, scores.width)


def _looked_up(
    t: Recorder, name: str, x: Tensor, vectors: Tensor, scores: Tensor, square: Square, live: bool | None
) -> Tensor:
    """Every query's, or every key's, product with each vector of distances, of which those of its pairs are looked up
    (He et al. 2021, arXiv:2006.03654, algorithm 1)."""
    found = t.made(square.rows * square.seq, vectors.rows, x, vectors, split="tensor")
    t.op(
        f"{name}_distances",
        "attention",
        "batched_matmul",
        (x, vectors),
        (found,),
        of="positional",
        flops=2 * square.rows * square.seq * vectors.rows * square.d_key,
        shape=Matmul(square.seq, vectors.rows, square.d_key, square.rows, weighed=False),
        live=live,
    )
    y = t.made(scores.rows, scores.width, found, split="tensor")
    t.op(f"{name}_lookup", "gather", "gather", (found,), (y,), of="positional", live=live)
    return y


def _by_distance(
    t: Recorder,
    name: str,
    spec: Shaw,
    inputs: tuple[Tensor, ...],
    made: Tensor,
    width: Size,
    flops: Size,
    product: Matmul,
    rule: dict[str, Any],
) -> None:
    """Every query against the vector of each key's distance, or every weight times that vector.

    name: the table's, [rows, width]: width is d_head, or d_value where weights are multiplied.
    flops: as many as those of the scores or the values: 2 * batch * n_heads * width * pairs (Shaw et al. 2018,
    section 3.3). product: queries of all heads against the vectors, or weights times them, once for each query. What
    comes out is added to the scores, or to the weighted values. The vectors [queries, keys, width] are looked up as
    they are needed, so that the table is what memory gives.
    """
    weight = t.weight(f"{name}.weight", spec.rows, width, of="positional")
    t.op(
        name,
        "attention",
        "batched_matmul",
        inputs,
        (made,),
        weights=(weight,),
        of="positional",
        flops=flops,
        backward=None if weight.trainable else inputs[0].grad * flops,
        shape=product,
        **rule,
    )


def _rule(t: Recorder, q: Tensor, k: Tensor, v: Tensor, square: Square, scoring: Scoring) -> dict[str, Any]:
    """What autograd keeps of all these ops together, as fields of the last of them."""
    trained = not t.frozen

    more = {
        name: x
        for name, x in zip(("distances", "by_query", "by_key"), (scoring.distances, *scoring.of_distances), strict=True)
        if x is not None
    }

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage, *distances: Storage) -> Storage:
        each = scoring.of_each
        vectors = {name: Vectors(x.rows, s, each) for (name, x), s in zip(more.items(), distances, strict=True)}
        return saved_by_attention(tape, q, k, v, square, _scores(tape, scoring, square, trained, vectors))

    return {"keeps": keeps, "operands": (q, k, v, *more.values())}


def _scores(tape: Tape, scoring: Scoring, square: Square, trained: bool, vectors: Mapping[str, Vectors]) -> Scores:
    """What becomes of these scores under the tape's settings; keeps what says which rows of a table are read."""
    s = tape.settings
    hides = 0 if scoring.window is None else at_least(square.seq, scoring.window)
    mask = square.batch * square.seq * square.keys * hides
    if not is_exactly(scoring.mask, 0):
        mask = scoring.mask
    if scoring.alibi or scoring.buckets is not None:
        mask, hides = square.heads * square.seq * square.keys, 1
    if scoring.buckets is not None and scoring.bias is None and trained:
        tape.keep(Storage(square.seq * square.keys, "int64", False, "none"), "distances")
    if scoring.shaw is not None and trained:
        for name in ("relative_key", "relative_value")[: 1 + scoring.shaw.values]:
            tape.keep(Storage(square.seq * square.keys, "int64", False, "none"), name)
    added = scoring.causal or scoring.window is not None or scoring.buckets is not None
    widened = s.autocast and tape.stream == "fp32" and added
    wide = scoring.softmax == "fp32" or s.autocast_on_gpu or widened or scoring.alibi
    bias = scoring.buckets is not None and trained
    covered = square.seq * square.keys if bias and scoring.causal else 0
    sinks = scoring.sinks is not None
    return Scores(
        wide,
        scoring.softcap,
        sinks,
        scoring.shaw,
        mask,
        hides,
        bias,
        covered,
        scoring.by_head,
        trained=trained,
        repeated=scoring.repeated,
        apart=scoring.apart,
        **vectors,
    )
