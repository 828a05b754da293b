"""What a tool's launch file cannot hold of the best plan of its stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from calc.plan.answer import Answer, Plan
from calc.plan.export.launch import Tool
from calc.plan.launchers import launcher
from calc.plan.objective import Objective
from calc.plan.planning import answer
from calc.plan.question import Question
from calc.spec.run import Run
from calc.workers.job import Progress
from calc.workers.workers import HERE, Workers

WORTH = 0.0005
"""Part by which that plan beats what the file can hold, at least: less would be told as nothing."""


class Beyond(NamedTuple):
    """A plan that a tool's file cannot hold. lacks: those of its settings that the file has no words for."""

    plan: Plan
    lacks: tuple[str, ...]


def beyond(
    questions: Sequence[Question],
    tool: Tool,
    own: Answer,
    objective: Objective = "time",
    progress: Progress | None = None,
    workers: Workers = HERE,
) -> Beyond | None:
    """The best plan of a tool's stack, where its file cannot hold it and it beats what that can hold.

    own: the answer of plans that it can. The second search keeps no parts in a folder, which is of the first.
    """
    if own.interrupted or tool.launcher == tool.stack:
        return None
    wider = [replace(question, launched=None) for question in questions]
    found = answer(wider, objective, 1, progress, HERE if workers.keep is not None else workers)
    if not found.plans or (own.plans and own.plans[0].value < found.plans[0].value * (1 + WORTH)):
        return None
    best = found.plans[0]
    return Beyond(best, tuple(_lacks(best.run, tool)))


def _lacks(run: Run, tool: Tool) -> Iterator[str]:
    its = launcher(tool.launcher)
    for name in its.only:
        value = getattr(run, name)
        if not its.takes(name, value) and not (name == "zero" and run.dp * run.cp == 1):
            yield f"{name} {value}"
    if not its.takes("recompute", run.recompute):
        yield f"recompute {'+'.join(run.recompute)}"
    if not its.cuts(run.tp, run.ep, run.expert_pieces):
        yield f"expert_tp {run.expert_pieces}"
