"""`predict`: from a model, a device and a load to seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from calc.errors import Refused
from calc.memory.sharding import Stage
from calc.memory.stage_columns import stage_columns
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import Run
from calc.time.device.profile import Profile
from calc.time.device.speed import Speed
from calc.time.device.speed_of import speed_of
from calc.time.kernels.kernel import DIRECTIONS, Direction
from calc.time.kernels.timing import LEVEL
from calc.time.step.details import details
from calc.time.step.mfu import NOT_COUNTED, mfu
from calc.time.step.one_pass import Pass, Question, passes
from calc.time.step.prediction import Details, Prediction
from calc.time.step.recomputation import least_recomputed
from calc.time.step.step import step_columns, updates
from calc.time.step.timed_run import timed_run


def predict(
    spec: ModelSpec,
    where: Speed | Profile | Device | str,
    run: Run | None = None,
    *,
    within: str = "",
    directions: Collection[Direction] | None = None,
    level: float = LEVEL,
    **words: Any,
) -> Prediction:
    """The seconds of one step of `spec` on a device, with an interval and all kernels it is made of.

    where: a profile, a device, or the name of one. run, words: what runs, as a Run or by its fields, of which
    `timed_run` fills in what is not said, and `least_recomputed` what a stack or a cluster has no room to keep. batch
    is of one data-parallel rank, in training of one of its micro-batches, which are run one after the other. within:
    only ops below this path of the tree (`layers`), and then no loss and no optimizer. directions: only these kernels.
    Errors: Refused for unknown words, formats without a known speed, runs that do not fit the model or that cannot be
    predicted, and lengths that the model does not take.
    """
    chosen = DIRECTIONS if directions is None else tuple(directions)
    question = Question(spec, speed_of(where), within, chosen, level)
    device = question.speed.device
    run = timed_run(spec, run, accelerator=device and device.name, **words)
    run = least_recomputed(spec, run, device)
    one = passes(question, [run])[0]
    if not (one.kernels or one.messages or updates(question, run)):
        raise Refused("within", "a path of the tree", within or "nothing that runs")
    columns, _ = stage_columns(spec, run)
    step = step_columns(question, run, columns, one.sums, [0])
    found, others, waits = (each + 0 * columns.first for each in (step.seconds, step.others, step.bubble))
    slowest = int(found.argmax())
    stage, seconds = _stage(columns, slowest), float(found[slowest])
    known = question, run, stage, one, float(others[slowest]), float(waits[slowest])
    if not math.isfinite(seconds):
        details(*known)
    return _prediction_of(question, run, one, seconds, lambda: details(*known))


def _stage(columns: Stage, place: int) -> Stage:
    """One of a column of stages."""
    layers = {name: int(column[place]) for name, column in columns.layers.items()}
    return Stage(
        "slowest", layers, bool(columns.first[place]), bool(columns.last[place]), columns.chunks, stages=columns.stages
    )


def _prediction_of(question: Question, run: Run, one: Pass, seconds: float, found: Callable[[], Details]) -> Prediction:
    speed, sums = question.speed, one.sums
    share = None if question.within else mfu(run, speed, sums.flops, sums.counting, seconds)
    return Prediction(
        model=question.spec.name,
        device=speed.name,
        phase=run.phase,
        execution=run.execution or "sdpa",
        seconds=seconds,
        tokens=run.step_tokens,
        gpus=run.gpus,
        run=run,
        mfu=None if share is None else share.value,
        mfu_counting=NOT_COUNTED if share is None else share.counting,
        peak=None if share is None else share.peak,
        peak_source=None if share is None else share.peak_source,
        basis=speed.basis,
        source=speed.source,
        details=found,
    )
