"""Gradients beside activations in a pipeline: what is live as stages go forward and back in the order of a schedule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.memory.training import TrainingRank, ranks
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.time.schedule.orders import ORDERS
from tests.conventions.shapes import gpt

MOMENTS = ("forward", "backward, next piece", "backward, last piece", "backward, first layer")


def run_of(pp: int, pieces: int, micro_batches: int, **more: Any) -> Run:
    plan: dict[str, Any] = {"pp": pp, "interleave": pieces, "micro_batches": micro_batches, "seq": 64}
    return Run(phase="training", mode="training", recipe="bf16", **plan | more)


def trained(spec: ModelSpec, run: Run) -> list[TrainingRank]:
    """What every stage holds."""
    return ranks(spec, run.load(), run)


def in_order(rank: TrainingRank, stage: int, run: Run) -> int:
    """The most of activations and gradients before and after every piece that goes back, told one by one."""
    live, own = rank.activations, rank.states
    a_piece = (own.waiting - own.root_gradients) // run.interleave
    flight, touched, most = 0, set[int](), 0
    for task in ORDERS[run.schedule](stage, run.pp, run.micro_batches_a_step, run.interleave):
        if task.what == "forward":
            flight += 1
        elif task.what == "backward":
            flight -= 1
            touched.add(task.chunk)
        there = own.root_gradients * bool(touched) + a_piece * len(touched)
        in_flight = held(rank, run, stage)
        waiting = min(flight, in_flight - 1) * live.ends // max(in_flight - 1, 1)
        sent = min(live.between.sent, live.between.each * flight) + live.between.each * (task.what == "backward")
        kept = live.outside + live.layers // in_flight * flight + waiting + sent
        most = max(most, live.between.buffers + kept + there)
    return most


def held(rank: TrainingRank, run: Run, stage: int) -> int:
    """Pieces that are in flight at most."""
    flight = most = 0
    for task in ORDERS[run.schedule](stage, run.pp, run.micro_batches_a_step, run.interleave):
        flight += {"forward": 1, "backward": -1}.get(task.what, 0)
        most = max(most, flight)
    return most


def told(rank: TrainingRank) -> int:
    """The most of them that memory has at the moments that it tells."""
    there = (rank.moments[name] for name in MOMENTS if name in rank.moments)
    return max(int(each["activations"]) + int(each["gradients"]) for each in there)


@given(st.integers(2, 6), st.integers(1, 3), st.integers(1, 4), st.sampled_from(["1f1b", "gpipe", "zero-bubble"]))
def test_the_moments_hold_what_a_schedule_has_live(pp: int, pieces: int, times: int, schedule: str) -> None:
    """Of pieces with a layer each, of every stage; pieces of a stage turn by turn, of micro-batches in multiples of the
    stages, and otherwise any number of them."""
    pieces = pieces if schedule == "1f1b" else 1
    micro_batches = times * pp if pieces > 1 else times + pp - 2
    if micro_batches < 1:
        return
    run = run_of(pp, pieces, micro_batches, schedule=schedule)
    for stage, rank in enumerate(trained(gpt(192, pp * pieces, 6, 1000), run)):
        assert told(rank) == in_order(rank, stage, run)


def test_every_micro_batch_in_flight_has_no_gradients_beside_it() -> None:
    """As many as there are stages: the first goes back with none there, the second with all; one more, and they stand
    beside all that the first stage keeps, and what it receives their gradients into, which is there for each."""
    first = [trained(gpt(192, 8, 6, 1000), run_of(4, 1, n))[0] for n in (4, 5, 64)]
    assert [rank.moments["forward"]["gradients"] for rank in first] == [0, *[first[0].states.waiting] * 2]
    peaks = [rank.peak - rank.activations.between.buffers for rank in first]
    assert peaks[0] < peaks[1] == peaks[2]
    assert {rank.activations.layers for rank in first} == {first[0].activations.layers}


@pytest.mark.parametrize("stack", ["megatron-core", "megatron-core-0.18"])
def test_gradients_that_products_add_to_are_always_there(stack: str) -> None:
    """Megatron-Core's buffers of gradients are made with the model."""
    (rank, *_) = trained(gpt(192, 8, 6, 1000), run_of(4, 1, 4, stack=stack))
    assert rank.moments["forward"]["gradients"] == rank.states.waiting
    assert "backward, next piece" not in rank.moments
