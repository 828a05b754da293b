"""The core of every attention: scores, softmax, weighted values.

As three kernels they write the scores and the weights [batch, n_heads, seq, keys] to memory and read them again; as one
(Dao et al. 2022, arXiv:2205.14135) they do not. What autograd keeps of them stands in
`attend_saved`, what is live of them where nothing is kept in `attend_live`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calc.sizes import Size, at_least, is_exactly
from calc.trace.functions import Attend, Matmul
from calc.trace.op import Cache, Moves
from calc.trace.primitives.attend_added import added_to_scores, by_distance
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
    weights = _weights(t, core, scores, added_to_scores(t, q, k, scores, core, twice_pairs, live))
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
    by_distance(t, "relative_value", of_distances, (weights, out), whole, shape.d_value, flops, product, rule)
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
    hides = 1 if scoring.masked else hides
    mask = square.batch * square.seq * square.keys * hides
    biased = scoring.buckets is not None or scoring.bias is not None
    if scoring.alibi or biased:
        mask, hides = square.heads * square.seq * square.keys, 1
    if not is_exactly(scoring.mask, 0):
        mask = scoring.mask
    if scoring.buckets is not None and scoring.bias is None and trained:
        tape.keep(Storage(square.seq * square.keys, "int64", False, "none"), "distances")
    if scoring.shaw is not None and trained:
        for name in ("relative_key", "relative_value")[: 1 + scoring.shaw.values]:
            tape.keep(Storage(square.seq * square.keys, "int64", False, "none"), name)
    added = scoring.causal or scoring.window is not None or biased or scoring.own is not None
    widened = s.autocast and tape.stream == "fp32" and added
    wide = scoring.softmax == "fp32" or s.autocast_on_gpu or widened or scoring.alibi
    bias = biased and trained
    covered = square.seq * square.keys if bias and scoring.causal else 0
    if scoring.own is not None:
        mask, hides, bias = square.rows * square.seq * square.keys, 1, scoring.own.grad
    sinks = scoring.sinks is not None
    of_heads = scoring.alibi or biased or scoring.own is not None
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
        common_mask=scoring.common_mask and not (scoring.wide_mask and s.autocast),
        repeated=scoring.repeated,
        apart=scoring.apart,
        of_heads=of_heads,
        **vectors,
    )
