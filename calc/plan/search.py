"""Searching all plans: memory first, then the time of those that fit, a piece at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from calc.plan.leaders import Rows, chosen, joined
from calc.plan.objective import Objective
from calc.plan.pieces import Piece, SearchRequest, lesser, pieces, searched
from calc.plan.question import SIZES, Question
from calc.plan.space import run_words, structures
from calc.spec.run import Run
from calc.time.step.timed_run import timed_run
from calc.workers.job import Job, Part, Progress
from calc.workers.workers import HERE, Workers


@dataclass
class Seen:
    """What a search has found so far.

    rows: the plans that an answer can need (`calc.plan.leaders`), `structure` the place of their words in `words`.
    plans: how many were listed, timed: how many of them fit and have a time. ruled: how many each reason ruled out.
    least: the plan of all that holds the least, of those too large too. unread: kinds of plans that are not described.
    interrupted: whether the search was ended before it was through.
    """

    words: list[dict[str, Any]]
    rows: Rows = field(default_factory=dict)
    plans: int = 0
    timed: int = 0
    ruled: Counter[str] = field(default_factory=Counter)
    least: Rows = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)
    interrupted: bool = False

    def add(self, part: Part, top: int) -> None:
        """What one piece found; pieces come in their order, so that of equal plans the same is kept every time."""
        import numpy as np

        facts = part.facts
        self.plans += facts["plans"]
        self.timed += facts["timed"]
        self.ruled += Counter(facts["ruled"])
        self.unread |= dict.fromkeys(facts["unread"])
        if part.columns and len(part.columns["dp"]):
            self.rows = chosen(joined(self.rows, part.columns), top)
        if facts["least"]:
            held = {name: np.array([value]) for name, value in facts["least"].items()}
            self.least = lesser(self.least, held)


def search(
    question: Question,
    top: int,
    objective: Objective = "time",
    progress: Progress | None = None,
    workers: Workers = HERE,
    every: bool = False,
) -> Seen:
    """Every plan of the question, memory first; the time of those that fit.

    every: whether all of these are kept where `workers` keep parts. Ctrl-C ends the search, not the program: what was
    found until then is the answer.
    Errors: Refused for what no plan can change; those of `Workers.results`.
    """
    seen = Seen([])
    try:
        seen.words, unsupported = structures(question)
        request = SearchRequest(question, [*seen.words, *unsupported], len(seen.words), objective, top, every)
        job = job_of(request)
        if progress is not None:
            progress("0 plans; pieces of the search", 0, job.count)
        for place, part in workers.results(job):
            seen.add(part, top)
            if progress is not None:
                progress(f"{seen.plans:,} plans; pieces of the search", place + 1, job.count)
    except KeyboardInterrupt:
        seen.interrupted = True
    return seen


def job_of(request: SearchRequest) -> Job:
    """A search as work for anybody."""
    everything = list(pieces(request))
    return Job("plans", lambda: _described(request), searched, request, everything, len(everything), _structure)


def _structure(piece: Piece) -> int:
    """What passes are worked out for once."""
    return piece.place


def _described(request: SearchRequest) -> dict[str, Any]:
    """All that the plans depend on, as JSON values."""
    described = {name: getattr(request.question, name) for name in WORDS}
    return {
        "spec": request.question.spec.model_dump(mode="json"),
        "cluster": request.question.cluster.model_dump(mode="json"),
        **{name: dict(value) if isinstance(value, Mapping) else value for name, value in described.items()},
        **{name: getattr(request, name) for name in ("objective", "top", "every")},
    }


WORDS = ("gpus", "seq", "sequences", "recipes", "fixed", "at_most", "headroom", "words", "price", "launched")
"""What else a question says that its plans depend on."""


def runs_of(question: Question, seen: Seen, rows: Rows) -> Iterator[Run]:
    """The plan of each row as a run in whole numbers."""
    for place in range(len(rows["dp"])):
        words = seen.words[int(rows["structure"][place])]
        sizes = {name: int(rows[name][place]) for name in SIZES}
        described: dict[str, Any] = question.run_words() | run_words(words) | sizes
        yield timed_run(question.spec, **described)
