"""Memory of one GPU: the terms of the rank that holds the most, and its peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from calc.errors import Refused
from calc.memory.conditions import feasible
from calc.memory.rank import Rank
from calc.memory.serving import servers
from calc.memory.stage_columns import combinations, stage_columns
from calc.memory.training import TrainingRank, on_stages, ranks
from calc.sizes import Size, is_array, is_symbolic, largest
from calc.spec import ModelSpec
from calc.spec.run import LOAD_SIZES, PLAN_SIZES, Run

Served = Callable[[ModelSpec, Run], list[Rank]]
CHUNK = 2**13
"""Plans handled together, each with its kinds of stages, so that their columns stay in a core's cache."""


class Needs(NamedTuple):
    """Bytes of the rank that holds the most. peak: live at once. reserved: what PyTorch's allocator then holds, in
    training (`calc.memory.training.TrainingRank.reserved`); the peak where that is not predicted. host,
    host_at_most: of the host's memory, for the rank that takes the most of it (`TrainingRank`)."""

    peak: Size
    reserved: Size
    host: Size
    host_at_most: Size


def _possible(spec: ModelSpec, run: Run, terms: Mapping[str, Size]) -> Mapping[str, Size]:
    """The same terms; rows of arrays for which no such run can be carried out become nan, not a calm wrong number."""
    rows = feasible(spec, run)
    if rows is None or rows.all():
        return terms
    import numpy

    return {name: numpy.where(rows, term, numpy.nan) for name, term in terms.items()}


def memory_ranks(spec: ModelSpec, run: Run) -> list[Rank]:
    """Every kind of rank under a run. Errors: Refused for a run that does not divide the model, and for training with
    modules that predict further tokens."""
    if run.mode == "inference":
        return servers(spec, run)
    if run.mtp:
        raise Refused("mtp", "false: what modules that predict further tokens keep for backward is not described", True)
    return training_ranks(spec, run)


def training_ranks(spec: ModelSpec, run: Run) -> list[Rank]:
    """Every kind of rank in training, with weights, gradients and optimizer's states of modules that predict further
    tokens and without what these keep for backward. Errors: Refused for a run that does not divide the model."""
    return list(ranks(spec, run.load(mtp=False), run, run.checkpointing, run.frozen))


def plan_peaks(spec: ModelSpec, run: Run, served: Served = servers) -> Size:
    """The peak of the rank that holds the most under every plan of `run`, as `plan_needs`."""
    return plan_needs(spec, run, served).peak


def plan_needs(spec: ModelSpec, run: Run, served: Served = servers) -> Needs:
    """What the rank that holds the most needs under every plan of `run`, whose sizes are numbers or columns of one
    length; nan where the model cannot be spread so. Of one plan it is that of `peak_terms`, or in training of
    `training_ranks`. pp is a column in training, and a number where a model is served. served: the ranks of a server,
    by default with all that it ever runs.

    What a layer keeps is written down once for each load that there is, in whole numbers: of one sequence, some views
    need no copy.
    Errors: Refused for what no plan can change.
    """
    import numpy

    columns = _columns(run)
    rows = feasible(spec, run)
    n = len(next(iter(columns.values())))
    found = Needs(*(numpy.full(n, numpy.nan) for _ in Needs._fields))
    rows = numpy.arange(n) if rows is None else numpy.flatnonzero(rows)
    loads = {name: column[rows] for name, column in columns.items() if name in LOAD_SIZES}
    first, which = combinations(list(loads.values()), len(rows))
    for i, example in enumerate(first):
        load = {name: int(column[example]) for name, column in loads.items()}
        alike = rows[which == i]
        for start in range(0, len(alike), CHUNK):
            some = alike[start : start + CHUNK]
            own = _needs(spec, run.placed({name: column[some] for name, column in columns.items()} | load), served)
            for column, needed in zip(found, own, strict=True):
                column[some] = needed
    return found


def _columns(run: Run) -> dict[str, Size]:
    """The sizes of a run that are columns."""
    return {name: size for name in (*LOAD_SIZES, *PLAN_SIZES) if is_array(size := getattr(run, name))}


def _needs(spec: ModelSpec, run: Run, served: Served) -> Needs:
    """Those of plans of one load that can all be."""
    import numpy

    if run.mode == "inference":
        peak = largest(rank.peak for rank in served(spec, run))
        return Needs(peak, peak, 0, 0)
    stage, row = stage_columns(spec, run)
    wide = run.placed({name: column[row] for name, column in _columns(run).items()})
    (rank,) = on_stages(spec, wide.load(mtp=False), wide, [stage], wide.checkpointing, wide.frozen)
    starts, empty = numpy.flatnonzero(numpy.diff(row, prepend=-1)), numpy.zeros(len(row))
    of_stages = rank.peak, rank.reserved, rank.host, rank.host_at_most
    return Needs(*(numpy.maximum.reduceat(each + empty, starts) for each in of_stages))


def most_needed(found: Sequence[Rank]) -> Needs:
    """The most that any of these ranks takes of each, of sizes that are ints."""
    peak = max(rank.peak for rank in found)
    trained = [rank for rank in found if isinstance(rank, TrainingRank)]
    reserved = max((rank.reserved for rank in trained), default=peak)
    hosts = [max((getattr(rank, name) for rank in trained), default=0) for name in ("host", "host_at_most")]
    return Needs(peak, reserved, *hosts)


def worst(found: list[Rank]) -> Rank:
    """The rank with the highest peak, of sizes that are ints."""
    return max(found, key=lambda rank: rank.peak)


def total_terms(spec: ModelSpec, run: Run) -> Mapping[str, Size]:
    """Terms of the rank with the highest peak; for arrays and symbols over several ranks, its sum alone.

    Of symbols that rank is named by the run's `rank`; without it, the highest sum of any rank stands for it.
    """
    found = memory_ranks(spec, run)
    own = [rank for rank in found if rank.stage == run.rank]
    if len(found) == 1 or own:
        return _possible(spec, run, (own or found)[0].terms)
    if any(is_array(rank.peak) for rank in found):
        import numpy

        peaks, totals = (
            numpy.stack(numpy.broadcast_arrays(*each))
            for each in ([rank.peak for rank in found], [rank.total for rank in found])
        )
        row = numpy.take_along_axis(totals, peaks.argmax(axis=0)[None], axis=0)[0]
        return _possible(spec, run, {"total": row})
    if any(is_symbolic(rank.peak) for rank in found):
        return {"total": largest(rank.total for rank in found)}
    # Columns of which no rank's bytes depend, as of --ep without experts, tell what cannot be all the same.
    return _possible(spec, run, worst(found).terms)


def peak_terms(spec: ModelSpec, run: Run) -> Mapping[str, Size]:
    """The most that is live at once on any rank."""
    return _possible(spec, run, {"peak": largest(rank.peak for rank in memory_ranks(spec, run))})
