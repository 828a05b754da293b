"""The stages of very many pipelines at once: a column for each of what a stage holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from calc.memory.sharding import ENDS_FED, Stage, held_chunks
from calc.memory.stage_lengths import further_modules, stage_lengths
from calc.sizes import at_least, is_array
from calc.spec import ModelSpec
from calc.spec.cache_key import CacheKey
from calc.spec.run import Run

Column = Any
"""A float64 array of n numbers."""


class Kinds(NamedTuple):
    """The kinds of stages of one pipeline, a row each. rank: the earliest of the kind, which holds the most. count: how
    many are of it."""

    rank: Column
    layers: Mapping[str, Column]
    first: Column
    last: Column
    count: Column


def stage_columns(spec: ModelSpec, run: Run) -> tuple[Stage, Column]:
    """Every kind of stage of every plan as one stage whose sizes are columns, and the row of `run` each belongs to.

    As `held_stages` has them: two stages of the model under DualPipe. Stages that hold as many layers of each group are
    of one kind, of which the earliest stands for all. `run` may have one pp, or a column of them: then the other sizes
    of the plan stay as they are, and `plan.placed` with the columns indexed by those rows goes with the stage.
    """
    import numpy as np

    paired, further = run.schedule == "dualpipe", further_modules(spec, run)
    if not is_array(run.pp) and not is_array(run.interleave):
        kinds = _kinds(CacheKey(spec), run.pp, run.interleave, further, run.stages, paired)
        return _stage(kinds, run, paired), np.zeros(len(kinds.rank), dtype=np.intp)
    # Pieces that are all alike make the stages that one piece each does.
    pieces = np.where(spec.n_layers % (run.pp * run.interleave) == 0, 1, run.interleave)
    distinct, which = np.unique(np.stack(np.broadcast_arrays(run.pp, pieces)), axis=1, return_inverse=True)
    every = [_kinds(CacheKey(spec), int(pp), int(n), further, None, paired) for pp, n in distinct.T]
    counts = np.array([len(kinds.rank) for kinds in every])
    many = counts[which]
    row = np.repeat(np.arange(len(which)), many)
    # Of each plan, the place of its first kind in the list of all, and then one after the other.
    place = (np.cumsum(counts) - counts)[which]
    place = np.repeat(place - np.cumsum(many) + many, many) + np.arange(len(row))
    joined = Kinds(
        np.concatenate([kinds.rank for kinds in every])[place],
        {name: np.concatenate([kinds.layers[name] for kinds in every])[place] for name in every[0].layers},
        np.concatenate([kinds.first for kinds in every])[place],
        np.concatenate([kinds.last for kinds in every])[place],
        np.concatenate([kinds.count for kinds in every])[place],
    )
    sizes = {name: getattr(run, name) for name in ("pp", "interleave", "micro_batches")}
    own = run.placed({name: size[row] for name, size in sizes.items() if is_array(size)})
    return _stage(joined, own, paired), row


def combinations(columns: Sequence[Column], n: int) -> tuple[Column, Column]:
    """Of n rows of some columns, the first of every combination of values that there is, and which of these each row
    has."""
    import numpy as np

    code = np.zeros(n, dtype=np.int64)
    for column in columns:
        distinct, place = np.unique(column, return_inverse=True)
        # Numbered anew for every column, so that no product of their lengths is too large.
        code = np.unique(code * len(distinct) + place, return_inverse=True)[1]
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return first, which


def _stage(kinds: Kinds, run: Run, paired: bool) -> Stage:
    held = held_chunks(run, kinds.rank)
    own = 1 + (ENDS_FED - 1) * at_least(run.pp, 2) if paired else 1
    pieces = own if paired else run.interleave
    return Stage("any", kinds.layers, kinds.first, kinds.last, pieces, held, kinds.count, own)


@lru_cache(maxsize=1024)
def _kinds(
    key: CacheKey[ModelSpec], pp: int, interleave: int, further: int, given: tuple[int, ...] | None, paired: bool
) -> Kinds:
    import numpy as np

    spec = key.value
    counts = {group.name: group.count for group in spec.layers}
    found: dict[tuple[tuple[int, ...], bool, bool], int] = {}
    like: Counter[tuple[tuple[int, ...], bool, bool]] = Counter()
    if pp == 1:
        found[tuple(counts.values()), True, True] = 0
        like[tuple(counts.values()), True, True] = 1
    else:
        order = spec.schedule or tuple(group.name for group in spec.layers for _ in range(group.count))
        bounds = (0, *accumulate(stage_lengths(len(order), pp, interleave, further, given)))
        stages = [order[start:end] for start, end in pairwise(bounds)]
        for rank, own in enumerate(stages[: pp // ENDS_FED] if paired else stages):
            both = (*own, *stages[pp - 1 - rank]) if paired else own
            kind = (tuple(map(both.count, counts)), rank == 0, rank == (0 if paired else pp - 1))
            found.setdefault(kind, rank)
            like[kind] += ENDS_FED if paired else 1
    layers = np.array([layers for layers, _, _ in found], dtype=float).T
    return Kinds(
        rank=np.array(list(found.values()), dtype=float),
        layers=dict(zip(counts, layers, strict=True)),
        first=np.array([first for _, first, _ in found], dtype=float),
        last=np.array([last for _, _, last in found], dtype=float),
        count=np.array([like[kind] for kind in found], dtype=float),
    )
