"""Timelines of pipelines, against the closed forms of their papers and against the step's own seconds."""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.time import predict
from calc.time.cluster.stacks import computing_longer
from calc.time.device.speed_of import speed_of
from calc.time.schedule.chrome import chrome_trace, save_timeline
from calc.time.schedule.of_run import timeline_of
from calc.time.schedule.stage_times import StageTimes
from calc.time.schedule.timeline import timeline
from calc.time.step.predicting import predict as predicted
from calc.time.step.timed_run import timed_run

SECONDS = st.floats(0.1, 10.0)


@given(st.integers(1, 9), st.integers(1, 12), SECONDS, SECONDS, st.sampled_from(["gpipe", "1f1b"]))
def test_even_stages_wait_for_all_but_one(
    pp: int, micro_batches: int, forward: float, backward: float, schedule: str
) -> None:
    """(m + pp - 1) times a micro-batch: Narayanan et al. 2021, section 2.2.1."""
    stages = [StageTimes(forward, backward)] * pp
    found = timeline(stages, micro_batches, schedule).seconds
    expected = (micro_batches + pp - 1) * (forward + backward)
    # With fewer micro-batches than stages one forward and one back is the same order as all forward first.
    assert found == pytest.approx(expected)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(2, 4), SECONDS)
def test_pieces_divide_the_bubble(pp: int, rounds: int, pieces: int, forward: float) -> None:
    """Bubble of (pp - 1) / v micro-batches: Narayanan et al. 2021, section 2.2.2, where back takes twice as long."""
    stages, micro_batches = [StageTimes(forward, 2 * forward)] * pp, rounds * pp
    found = timeline(stages, micro_batches, "1f1b", pieces).seconds
    assert found == pytest.approx((micro_batches + (pp - 1) / pieces) * 3 * forward)


@given(st.integers(2, 8), st.integers(0, 10), SECONDS)
def test_weights_gradients_fill_the_bubble(pp: int, more: int, each: float) -> None:
    """ZB-H1: (pp - 1)(F + B - 2W) of bubble in the notation of DeepSeek-V3's table 2 with B = F + W and F = W."""
    stages, micro_batches = [StageTimes(each, each, each)] * pp, 2 * pp + more
    found = timeline(stages, micro_batches, "zero-bubble").seconds
    assert found == pytest.approx((3 * micro_batches + pp - 1) * each)


@given(st.integers(1, 8), st.integers(0, 6), SECONDS)
def test_a_pipeline_fed_from_both_ends(half: int, more: int, each: float) -> None:
    """DualPipe: (pp / 2 - 1)(F&B + B - 3W) of bubble, DeepSeek-V3's table 2, where F = B / 2 = W and F&B = F + B."""
    pp, micro_batches = 2 * half, 4 * half + 2 * more
    found = timeline([StageTimes(each, each, each)] * pp, micro_batches, "dualpipe").seconds
    assert found == pytest.approx((3 * micro_batches + 2 * (half - 1)) * each)


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=1, max_size=4), st.integers(0, 4), st.floats(0, 1))
def test_ranks_of_dualpipe_run_two_stages(sizes: list[tuple[float, float, float]], more: int, send: float) -> None:
    """Every micro-batch passes every stage both ways, in order, on ranks that do one thing at a time."""
    stages = [StageTimes(*each, send) for each in (*sizes, *sizes[::-1])]
    pp, micro_batches = len(stages), 2 * len(stages) + 2 * more
    found = timeline(stages, micro_batches, "dualpipe")
    ends: dict[tuple[str, int, int], float] = {}
    for rank, events in enumerate(found.stages):
        own = [event for event in events if event.stream == "computing"]
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(own))
        ends |= {(each.what, pp - 1 - rank if each.chunk else rank, each.micro_batch): each.end for each in own}
    for rank, events in enumerate(found.stages):
        for event in (each for each in events if each.stream == "computing" and each.what != "optimizer"):
            place = pp - 1 - rank if event.chunk else rank
            assert event.chunk == event.micro_batch // (micro_batches // 2)
            assert event.end - event.start == pytest.approx(getattr(stages[place], event.what))
            ahead = {"forward": place - 1, "backward": place + 1, "weights": place}[event.what]
            if 0 <= ahead < pp:
                before = ends["backward" if event.what == "weights" else event.what, ahead, event.micro_batch]
                assert event.start >= before + send * (event.what != "weights") - 1e-9
    ways = ("forward", "backward", "weights")
    assert set(product(ways, range(pp), range(micro_batches))) <= ends.keys()


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=6), st.integers(1, 10))
def test_uneven_stages_of_gpipe_wait_for_the_slowest(sizes: list[tuple[float, float]], micro_batches: int) -> None:
    """Each way: all stages once, and the slowest for every further micro-batch."""
    found = timeline([StageTimes(*each) for each in sizes], micro_batches, "gpipe").seconds
    ways = list(zip(*sizes, strict=True))
    assert found == pytest.approx(sum(sum(way) + (micro_batches - 1) * max(way) for way in ways))


@given(
    st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=1, max_size=5),
    st.integers(1, 8),
    st.sampled_from(["gpipe", "1f1b", "zero-bubble"]),
    st.floats(0, 1),
)
def test_no_stage_does_two_things_and_nothing_is_early(
    sizes: list[tuple[float, float, float]], micro_batches: int, schedule: str, send: float
) -> None:
    found = timeline([StageTimes(*each, send) for each in sizes], micro_batches, schedule)
    ends: dict[tuple[str, int, int], float] = {}
    for stage, events in enumerate(found.stages):
        own = [event for event in events if event.stream == "computing"]
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(own))
        ends |= {(event.what, stage, event.micro_batch): event.end for event in own}
        assert sum(event.what == "forward" for event in own) == micro_batches
    for stage, events in enumerate(found.stages):
        for event in events:
            ahead = {"forward": stage - 1, "backward": stage + 1}.get(event.what)
            if ahead is not None and 0 <= ahead < len(sizes):
                assert event.start >= ends[event.what, ahead, event.micro_batch] + send - 1e-9
            if event.what == "weights":
                assert event.start >= ends["backward", stage, event.micro_batch] - 1e-9


def test_a_run_takes_as_long_as_its_timeline() -> None:
    """The closed form of the step and the events rest on the same stages: equal where these are even."""
    spec = calc.load_model("llama-3-70b")
    words: dict[str, Any] = {
        "phase": "training",
        "seq": 4096,
        "cluster": "dgx-h100",
        "gpus": 64,
        "tp": 4,
        "stack": "megatron-core",
    }
    plans: list[dict[str, Any]] = [
        {"pp": 4, "micro_batches": 8},
        {"pp": 4, "interleave": 5, "micro_batches": 8},
        {"pp": 4, "schedule": "dualpipe", "micro_batches": 32},
        {"pp": 1},
    ]
    for plan in plans:
        found = predict(spec, "h100-sxm", checkpointing="full", **words, **plan)
        drawn = timeline_of(spec, speed_of("h100-sxm"), found.run).seconds
        assert drawn == pytest.approx(found.seconds, rel=0.02)


def test_fewer_layers_beside_embedding_and_head_take_less() -> None:
    spec = calc.load_model("llama-3.1-405b")
    words: dict[str, Any] = {
        "phase": "training",
        "seq": 8192,
        "cluster": "dgx-h100",
        "gpus": 1024,
        "tp": 8,
        "stack": "megatron-core",
    }
    words |= {"pp": 16, "micro_batches": 32, "checkpointing": "full"}
    even = predicted(spec, "h100-sxm", **words)
    stated = predicted(spec, "h100-sxm", **words, stages=(7, *(8,) * 14, 7))
    assert stated.seconds < even.seconds
    for found in (even, stated):
        drawn = timeline_of(spec, speed_of("h100-sxm"), found.run)
        assert drawn.seconds == pytest.approx(found.seconds, rel=0.05)


def test_a_trace_has_every_event(tmp_path: Path) -> None:
    drawn = timeline([StageTimes(1.0, 2.0, send=0.1, optimizer=0.5)] * 2, 3)
    path = tmp_path / "trace.json"
    save_timeline(str(path), drawn)
    read = json.loads(path.read_text())
    assert read == chrome_trace(drawn)
    shown = [event for event in read["traceEvents"] if event["ph"] == "X"]
    assert len(shown) == sum(map(len, drawn.stages))
    assert max(event["ts"] + event["dur"] for event in shown) == pytest.approx(drawn.seconds * 1e6)
    with pytest.raises(Refused):
        save_timeline("trace.txt", drawn)


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        timeline([StageTimes(1.0, 1.0)] * 2, 3, "1f1b", 2)
    assert refused.value.field == "micro-batches"
    for stages, micro_batches, field in ((3, 6, "pp"), (2, 5, "micro-batches"), (4, 6, "micro-batches")):
        with pytest.raises(Refused) as refused:
            timeline([StageTimes(1.0, 1.0)] * stages, micro_batches, "dualpipe")
        assert refused.value.field == field
    with pytest.raises(Refused):
        timeline([StageTimes(1.0, 1.0)], 3, "chimera")


def test_cores_that_exchange_tokens_compute_nothing() -> None:
    """DeepSeek-V3 (arXiv:2412.19437, section 3.2.2): 20 of an H800's 132 SMs; without experts over ranks, none."""
    spec = calc.load_model("deepseek-v3")
    run = timed_run(spec, phase="training", cluster="h800", gpus=64, ep=8, stack="hai-llm", seq=4096)
    apart, none = (computing_longer(spec, run.changed(ep=ep), speed_of("h800")) for ep in (8, 1))
    assert apart / none == pytest.approx(132 / 112)
    with pytest.raises(Refused, match="leaves cores beside the 20 that exchange, of 2"):
        predict(spec, "tpu-v5p", phase="training", dp=4, ep=4, stack="hai-llm", network=50e9)
