"""What is added to attention's scores: biases of distances, and products with vectors of distances."""

from __future__ import annotations

from typing import Any

from calc.sizes import Size, exact_div
from calc.spec import Buckets, Shaw
from calc.trace.functions import Matmul
from calc.trace.op import Moves
from calc.trace.primitives.attend_live import Core, Scoring
from calc.trace.primitives.attend_saved import Square
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def added_to_scores(
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
        by_distance(t, "relative_key", scoring.shaw, (q,), found, shape.d_head, flops, product, {"live": live or None})
        made.append(found)
    if scoring.own is not None:
        made.append(scoring.own)
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
    heads = square.heads
    distances = exact_div(vectors.rows, square.batch) if scoring.of_each else vectors.rows
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


def by_distance(
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
