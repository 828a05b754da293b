"""What a search for plans finds, as plain values: for the page that shows it."""

from __future__ import annotations

import shlex
import time
from threading import Lock
from typing import Any, NamedTuple

from calc.charts import plans as charts
from calc.errors import Refused
from calc.plan.answer import Answer, Plan, record_of, seconds_lost
from calc.plan.checks import in_words
from calc.plan.export.launch import Launch, Tool
from calc.plan.export.registry import TOOLS
from calc.plan.minimum import least_that_works
from calc.plan.objective import Objective
from calc.plan.planning import answer
from calc.plan.question import Question, short
from calc.spec import ModelSpec
from calc.time import speed_of
from calc.time.schedule.of_run import timeline_of
from dashboard.cache import cached

LONGEST = 30.0
"""Seconds of a search here; other visitors wait for the same processor."""
BILLION = 10**9
_searching = Lock()
"""One search at a time: of several at once none would end before all do, and every other page would wait for them."""


class Wanted(NamedTuple):
    """A training run to be planned. sequences: of a step. tool: what launches it. price: of a GPU-hour. tokens: of the
    whole run, in billions. fixed, at_most: fields of a Run and their values. headroom: per cent of the memory."""

    cluster: str
    gpus: int
    seq: int
    sequences: int
    tool: str
    price: float
    tokens: int
    objective: Objective
    headroom: int
    fixed: tuple[tuple[str, Any], ...] = ()
    at_most: tuple[tuple[str, int], ...] = ()

    def command(self, reference: str) -> str:
        """The same on the command line: the best plan, with its launch file."""
        words = ["plan", reference, "--cluster", self.cluster, "--gpus", str(self.gpus), "--seq", str(self.seq)]
        words += ["--global-batch", f"{self.sequences}seq", "--as", self.tool, "--price", f"{self.price:g}/h"]
        words += ["--tokens", f"{self.tokens}B"]
        words += ["--objective", self.objective] if self.objective != "time" else []
        words += ["--headroom", f"{self.headroom}%"] if self.headroom else []
        words += [word for name, value in self.fixed for word in ("--fix", f"{name}={value}")]
        words += [word for name, value in self.at_most for word in ("--at-most", f"{name}={value}")]
        return f"python -m calc {shlex.join(words)} --json"

    def question(self, spec: ModelSpec) -> Question:
        """What is searched. Errors: Refused for what no plan can be."""
        return TOOLS[self.tool].question(
            spec,
            self.cluster,
            self.gpus,
            self.seq,
            self.sequences,
            fixed=dict(self.fixed),
            at_most=dict(self.at_most),
            headroom=self.headroom / 100,
            price=self.price,
        )


@cached
def planned(spec: ModelSpec, wanted: Wanted) -> dict[str, Any]:
    """best, launch, bars, events: of the plan that wins; plans: those on the front and the best ones, a row each;
    ruled: how many others each reason ruled out. Where nothing fits, `why` alone.

    Errors: Refused for what no plan can change, and where no plan was found in time.
    """
    question = wanted.question(spec)
    with _searching:
        found = answer([question], wanted.objective, progress=_Clock())
    if not found.plans:
        if found.interrupted:
            raise Refused("plans", f"a search of at most {LONGEST:g} s here", "a longer one, which the command does")
        return {"best": None, "why": least_that_works(question, found)}
    best = found.plans[0]
    timeline = timeline_of(spec, speed_of(question.device), best.run)
    events, stages, cut = charts.rows_of(timeline)
    record = record_of(best, best, wanted.tokens * BILLION)
    return {
        "best": record,
        "launch": _launch(TOOLS[wanted.tool], best),
        "bars": [*seconds_lost(best).items()],
        "events": events,
        "stages": stages,
        "cut": cut,
        "seconds": timeline.seconds,
        "plans": _rows(found, wanted),
        "budget": question.budget,
        "ruled": [(in_words(reason), count) for reason, count in found.ruled.most_common() if count],
        "listed": found.listed,
        "timed": found.timed,
        "interrupted": found.interrupted,
    }


class _Clock:
    """Ends a search that takes too long, as Ctrl-C does: what was found until then is the answer."""

    def __init__(self) -> None:
        self._end = time.monotonic() + LONGEST

    def __call__(self, what: str, done: int, count: int) -> None:
        if done < count and time.monotonic() > self._end:
            raise KeyboardInterrupt


def _rows(found: Answer, wanted: Wanted) -> list[dict[str, Any]]:
    """The best plans and those of the front, each once."""
    every = {id(plan): plan for plan in (*found.plans, *found.front)}.values()
    return [_row(plan, found.plans[0], wanted) for plan in sorted(every, key=lambda plan: plan.value)]


def _row(plan: Plan, best: Plan, wanted: Wanted) -> dict[str, Any]:
    it = plan.prediction
    return {
        "plan": short(plan.run),
        "recipe": plan.run.recipe,
        "seconds": it.seconds,
        "tokens/s": it.tokens_per_second,
        "MFU": it.mfu,
        "reserved": plan.reserved,
        "front": plan.on_front,
        "tie": record_of(plan, best)["tied"],
        "$ a billion tokens": plan.run.gpus * wanted.price / 3600 / it.tokens_per_second * BILLION,
    }


def _launch(tool: Tool, best: Plan) -> dict[str, str]:
    """The launch file, or why there is none."""
    try:
        text, why = tool.write(Launch(best.question, best.run)), ""
    except Refused as refused:
        text, why = "", str(refused)
    return {"text": text, "why": why, "version": tool.version}
