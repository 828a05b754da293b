"""The step of very many plans at once: a training plan's, or a server's token, with memory, in columns.

What a pass takes is worked out once for every combination of the sizes that its kernels see, by what works it out for
one plan (`calc.time.step.one_pass`); all else is arithmetic on columns, one entry for each kind of stage of each plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calc.errors import Refused
from calc.memory.conditions import feasible
from calc.memory.phases import phase_ranks
from calc.memory.stage_columns import combinations, stage_columns
from calc.memory.totals import plan_peaks
from calc.sizes import is_array
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import Run
from calc.time.device.profile import Profile
from calc.time.device.speed import Speed
from calc.time.device.speed_of import speed_of
from calc.time.kernels.kernel import DIRECTIONS
from calc.time.kernels.timing import LEVEL
from calc.time.models.residual import Column
from calc.time.step.mfu import NOT_COUNTED, mfu
from calc.time.step.one_pass import PassSums, Question, passes
from calc.time.step.step import step_columns
from calc.time.step.timed_run import timed_run

OF_PASS = ("batch", "seq", "context", "tp", "cp", "ep")
"""Sizes that the kernels of a pass see."""
SIZES = (*OF_PASS, "dp", "pp", "zero", "shard", "interleave", "micro_batches")
"""Sizes that may be columns."""
CHUNK = 2**14
"""Plans handled together, so that their columns stay in a core's cache."""


@dataclass(frozen=True, slots=True)
class Plans:
    """A column each; nan where a plan cannot be carried out, or where nothing is known of its time.

    seconds: of a step, a pass or a token. tokens: new ones of a step on all GPUs. gpus: of the plan. mfu: None where
    there is none. peak: bytes of the rank that holds the most, when it does; None where it was not asked for. fits:
    whether a GPU of the device has room for that; None where its memory is not known.
    """

    seconds: Column
    tokens: Column
    gpus: Column
    mfu: Column | None
    peak: Column | None
    fits: Column | None


def step_times(
    spec: ModelSpec,
    where: Speed | Profile | Device | str,
    run: Run | None = None,
    *,
    memory: bool = True,
    **words: Any,
) -> Plans:
    """The step of `spec` on a device under every plan; of a plan alone `calc.time.predict` gives the same seconds.

    run, words: as for `predict`, of which the names of SIZES may be columns of one length. memory: whether that is
    asked for too: of a step of training, or of the pass or token that is timed, with what is cached. Many distinct
    lengths take long: each is a pass of its own.
    Errors: Refused as `predict` for what no plan can change, where nothing is a column, and where none of the plans
    that divide the model can be.
    """
    import numpy as np

    run = timed_run(spec, run, columns=True, **{name: _column(name, word) for name, word in words.items()})
    lengths = {getattr(run, name).shape for name in SIZES if is_array(getattr(run, name))}
    if len(lengths) != 1 or len(next(iter(lengths))) != 1:
        raise Refused("sizes", "one or more columns of one length", str(sorted(lengths)))
    if run.stages is not None:
        raise Refused("stages", "none where plans are columns", ",".join(map(str, run.stages)))
    ((n,),) = lengths
    if not is_array(run.pp):
        run = run.changed(pp=np.full(n, float(run.pp)))
    question = Question(spec, speed_of(where), "", DIRECTIONS, LEVEL)
    rows = np.flatnonzero(_possible(spec, run, n))
    seconds, flops, counting = np.full(n, np.nan), np.full(n, np.nan), NOT_COUNTED
    if len(rows):
        sums, which = _passes(question, run, rows)
        flops[rows], counting = np.array([one.flops for one in sums])[which], sums[0].counting
        for start in range(0, len(rows), CHUNK):
            some = slice(start, start + CHUNK)
            seconds[rows[some]] = _slowest(question, _at(run, rows[some]), sums, which[some])
    share = mfu(run, question.speed, flops, counting, seconds)
    peak = _peaks(spec, run) if memory else None
    device = question.speed.device
    empty = np.zeros(n)
    return Plans(
        seconds,
        run.step_tokens + empty,
        run.gpus + empty,
        None if share is None else share.value,
        peak,
        None if peak is None or device is None else peak <= device.usable,
    )


def _column(name: str, word: Any) -> Any:
    """A list of sizes as an array."""
    import numpy as np

    return np.asarray(word) if name in SIZES and isinstance(word, Sequence) else word


def _possible(spec: ModelSpec, run: Run, n: int) -> Column:
    """Of each plan, whether it divides the model, and is one of which a time can be told."""
    import numpy as np

    holds = np.ones(n, dtype=bool)
    divided = feasible(spec, run)
    if divided is not None:
        holds &= divided
    if not run.trains:
        holds &= run.pp * run.cp * run.ep == 1
    for name in SIZES:
        if is_array(size := getattr(run, name)):
            holds &= size % 1 == 0
    return holds


def _passes(question: Question, run: Run, rows: Column) -> tuple[list[PassSums], Column]:
    """The sums of one pass for every combination of sizes that there is, and the place of each row's among them."""
    columns = [size[rows] for name in OF_PASS if is_array(size := getattr(run, name))]
    first, which = combinations(columns, len(rows))
    runs = [_one(run, int(row)) for row in rows[first]]
    try:
        return [each.sums for each in passes(question, runs)], which
    except Refused as refused:
        sums = [_if_any(question, each) for each in runs]
        known = next((each for each in sums if each is not None), None)
        if known is None:
            raise refused
    return [_never(known) if each is None else each for each in sums], which


def _if_any(question: Question, run: Run) -> PassSums | None:
    """The sums of a pass, None where nothing is known of its time."""
    try:
        return passes(question, [run])[0].sums
    except Refused:
        return None


def _never(like: PassSums) -> PassSums:
    """Those of a pass of which nothing is known."""
    return replace(like, sent={"tensor": {"all": float("nan")}})


def _slowest(question: Question, run: Run, sums: Sequence[PassSums], which: Column) -> Column:
    """Seconds of a step on the stage of each plan that takes the longest, which the others wait for."""
    import numpy as np

    stage, row = stage_columns(question.spec, run)
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    found = step_columns(question, _at(run, row), stage, _joined(sums, which[row]), starts)
    return np.maximum.reduceat(found.seconds, starts)


def _joined(sums: Sequence[PassSums], which: Column) -> PassSums:
    """Passes as one whose numbers are columns."""
    import numpy as np

    def by_place(tables: Sequence[Mapping[str, float]]) -> dict[str, Column]:
        names = dict.fromkeys(name for table in tables for name in table)
        return {name: np.array([table.get(name, 0.0) for table in tables], dtype=float)[which] for name in names}

    def by_stretch(tables: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, Column]]:
        names = dict.fromkeys(name for table in tables for name in table)
        return {name: by_place([table.get(name, {}) for table in tables]) for name in names}

    return PassSums(
        by_stretch([each.device for each in sums]),
        by_stretch([each.host for each in sums]),
        by_stretch([each.sent for each in sums]),
        by_place([each.launched for each in sums]),
        by_place([each.weights for each in sums]),
        by_place([each.elements for each in sums]),
        by_place([each.trained for each in sums]),
        by_place([each.expert_elements for each in sums]),
        by_place([each.expert_trained for each in sums]),
        by_place([each.narrow for each in sums]),
        by_place([each.expert_narrow for each in sums]),
        np.array([each.flops for each in sums])[which],
        sums[0].counting,
        np.array([each.moved for each in sums])[which],
    )


def _at(run: Run, rows: Column) -> Run:
    """The plans of some rows."""
    return run.placed({name: size[rows] for name in SIZES if is_array(size := getattr(run, name))})


def _one(run: Run, row: int) -> Run:
    """The plan of a row, in whole numbers."""
    return run.placed({name: int(size[row]) for name in SIZES if is_array(size := getattr(run, name))})


def _peaks(spec: ModelSpec, run: Run) -> Column:
    """Bytes of the rank that holds the most; of servers where no pipeline is asked for, as where a time is."""
    import numpy as np

    if run.trains:
        return plan_peaks(spec, run)
    alone = run.pp * run.cp * run.ep == 1
    peak = plan_peaks(spec, run.changed(dp=run.dp + 0.0 * run.pp, pp=1, cp=1, ep=1), phase_ranks)
    return np.where(alone, peak, np.nan)
