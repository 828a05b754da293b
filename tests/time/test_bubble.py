"""What stages wait, in closed form, against timelines: told steps are not shorter than their order allows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.spec.adapters import Lora
from calc.spec.run import Run
from calc.spec.run.parallelism import Schedule
from calc.time import predict
from calc.time.device.speed_of import speed_of
from calc.time.schedule.of_run import timeline_of
from calc.time.schedule.stage_times import StageTimes
from calc.time.schedule.timeline import timeline
from calc.time.step.bubble import Work, bubble
from calc.time.step.plans import step_times

PIPELINES: tuple[Schedule, ...] = ("gpipe", "1f1b", "zero-bubble")
ADAPTER = Lora(rank=16)
WEIGHTS = st.floats(0, 1)
"""Of a micro-batch whose forward takes a second, those of products for weights' gradients: none where a base is frozen,
and no more than of those for inputs'."""
BACK = st.floats(1, 2.5)
"""The other seconds of going back, with what is recomputed."""


def told(stages: list[StageTimes], micro_batches: int, schedule: Schedule) -> float:
    """Seconds of the stage that takes the longest, with what it waits."""
    works = [Work(each.forward + each.backward + each.weights, each.forward, each.weights) for each in stages]
    first = works[0].weights
    if schedule == "dualpipe":
        works = [Work(*np.add(one, other) / 2) for one, other in zip(works, reversed(works), strict=True)]
    run = Run(phase="training", pp=len(stages), micro_batches=micro_batches, schedule=schedule)
    total = np.sum(works, axis=0)
    return max(
        micro_batches * own.seconds + bubble(run, own, Work(*(total - own)), first) for own in map(Work._make, works)
    )


@given(st.integers(1, 16), st.integers(1, 64), BACK, WEIGHTS, st.sampled_from(PIPELINES))
def test_stages_that_are_alike_wait_as_long_as_told(
    pp: int, micro_batches: int, back: float, weights: float, schedule: Schedule
) -> None:
    """However few micro-batches there are, and however little can be put off."""
    stages = [StageTimes(1.0, back, weights)] * pp
    assert told(stages, micro_batches, schedule) == pytest.approx(timeline(stages, micro_batches, schedule).seconds)


@given(st.integers(1, 8), st.integers(0, 16), BACK, WEIGHTS)
def test_ranks_of_dualpipe_that_are_alike_wait_about_as_long(half: int, more: int, back: float, weights: float) -> None:
    stages, micro_batches = [StageTimes(1.0, back, weights)] * (2 * half), 4 * half + 2 * more
    drawn = timeline(stages, micro_batches, "dualpipe").seconds
    assert drawn * 0.999 < told(stages, micro_batches, "dualpipe") < drawn * 1.05


@given(st.data(), BACK, WEIGHTS, st.sampled_from([*PIPELINES, "dualpipe"]))
def test_uneven_stages_are_not_told_much_faster_than_they_can_be(
    data: st.DataObject, back: float, weights: float, schedule: Schedule
) -> None:
    pp = data.draw(st.integers(1, 10)) * (2 if schedule == "dualpipe" else 1)
    sizes = data.draw(st.lists(st.floats(0.9, 1.1), min_size=pp, max_size=pp))
    micro_batches = data.draw(st.integers(1, 2 * pp))
    if schedule == "dualpipe":
        micro_batches = 2 * (pp + micro_batches - 1)
    stages = [StageTimes(size, back * size, weights * size) for size in sizes]
    assert told(stages, micro_batches, schedule) > 0.95 * timeline(stages, micro_batches, schedule).seconds


@pytest.mark.parametrize(("adapter", "checkpointing"), [(None, "full"), (None, "none"), (ADAPTER, "none")])
def test_a_step_is_not_much_shorter_than_its_timeline(adapter: Lora | None, checkpointing: str) -> None:
    """Of a model whose last stage has the head; a plan alone and the same among others."""
    spec = calc.load_model("llama-3-8b").model_copy(update={"adapter": adapter})
    same: dict[str, Any] = {"phase": "training", "seq": 4096, "cluster": "dgx-h100", "dtype": "bf16-master"}
    same["checkpointing"] = checkpointing
    plans = [(pp, count) for pp, count in product((2, 4, 8), (1, 2, 3, 4, 8, 16, 32))]
    for schedule in (*PIPELINES, "dualpipe"):
        some = [(pp, count) for pp, count in plans if schedule != "dualpipe" or (count >= 2 * pp and count % 2 == 0)]
        stages, counts = (list(column) for column in zip(*some, strict=True))
        columns = step_times(
            spec, "h100-sxm", **same, schedule=schedule, pp=stages, micro_batches=counts, dp=[8 // pp for pp in stages]
        )
        for (pp, count), seconds in zip(some, columns.seconds, strict=True):
            found = predict(spec, "h100-sxm", **same, schedule=schedule, pp=pp, micro_batches=count, dp=8 // pp)
            drawn = timeline_of(spec, speed_of("h100-sxm"), found.run).seconds
            assert 0.95 * drawn < found.seconds < 1.1 * drawn
            assert found.seconds == pytest.approx(seconds)
            assert sum(found.by_component.values()) == pytest.approx(found.seconds)


def test_frozen_weights_leave_nothing_to_put_off() -> None:
    """Adapters' gradients are few: what stages wait is nearly that of one forward and one back."""
    spec = calc.load_model("llama-3-8b").model_copy(update={"adapter": ADAPTER})
    words: dict[str, Any] = {"phase": "training", "seq": 4096, "cluster": "dgx-h100", "gpus": 8, "pp": 8}
    words |= {"micro_batches": 16, "checkpointing": "none"}
    plain, put_off = (predict(spec, "h100-sxm", schedule=name, **words) for name in ("1f1b", "zero-bubble"))
    assert 0.9 < put_off.by_component["bubble"] / plain.by_component["bubble"] < 1


def test_dualpipe_is_given_as_many_micro_batches_as_it_needs() -> None:
    assert Run(phase="training", pp=8, schedule="dualpipe").micro_batches_a_step == 16
    assert Run(phase="training", pp=1, schedule="dualpipe").micro_batches_a_step == 1
    assert Run(phase="training", pp=8, schedule="zero-bubble").micro_batches_a_step == 8


@pytest.mark.parametrize("schedule", ["zero-bubble", "dualpipe"])
def test_schedules_of_whole_stages_take_no_pieces(schedule: str) -> None:
    spec = calc.load_model("llama-3-8b")
    with pytest.raises(Refused, match=f"interleave: expected 1 under {schedule}, found 2"):
        predict(spec, "h100-sxm", phase="training", cluster="dgx-h100", gpus=8, pp=4, interleave=2, schedule=schedule)
