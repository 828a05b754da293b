"""Whether plans have room: what their ranks reserve on a GPU, and what a machine holds for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from calc.memory.totals import Needs, plan_needs
from calc.plan.question import SIZES, Question
from calc.plan.space import Column, Columns, run_words
from calc.spec.run import Run
from calc.time.step.timed_run import timed_run


class Room(NamedTuple):
    """Of a column of plans. needs: bytes of the rank that takes the most. on_gpu: whether PyTorch may reserve as much.
    on_host: whether a machine has as much for each of its GPUs. gpus: of the plan."""

    needs: Needs
    on_gpu: Column
    on_host: Column
    gpus: Column


def room_of(question: Question, columns: Columns, words: Mapping[str, Any]) -> Room:
    """The room of plans that can be carried out (`calc.plan.checks.possible`), of one structure.

    Errors: Refused for a model or a kind of plan whose memory is not described.
    """
    run = run_of_rows(question, columns, words)
    needs = plan_needs(question.spec, run)
    gpus = columns["dp"] * columns["tp"] * columns["cp"] * columns["pp"]
    return Room(needs, needs.reserved <= question.budget, question.host_holds(needs.host_at_most, gpus), gpus)


def run_of_rows(question: Question, columns: Columns, words: Mapping[str, Any]) -> Run:
    """Plans of one structure as one run, each size a column but those that the structure says itself."""
    sizes = {name: column for name, column in columns.items() if name in SIZES and name not in words}
    return timed_run(question.spec, columns=True, **question.run_words() | run_words(words) | sizes)
