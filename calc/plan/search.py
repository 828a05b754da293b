"""Searching all plans: memory first, then the time of those that fit, a chunk at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from calc.errors import Refused
from calc.memory.totals import plan_needs
from calc.plan.checks import possible
from calc.plan.keeping import Rows, at, chosen, joined
from calc.plan.question import SIZES, Question
from calc.plan.space import Column, Columns, chunks, run_words, structures
from calc.spec.run import Run
from calc.time.device.speed import Speed, speed_of
from calc.time.step.plans import step_times
from calc.time.step.timed_run import timed_run

Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and how much there is."""
WAITING = 2**16
"""Plans that are timed together, at least."""
Weight = Callable[[Column], Column]
"""GPUs of plans -> what a second of their step weighs where the least is looked for."""


@dataclass
class Seen:
    """What a search has found so far.

    rows: the plans that an answer can need (`calc.plan.keeping`), `structure` the place of their words in `words`.
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


def search(question: Question, top: int, weight: Weight, progress: Progress | None = None) -> Seen:
    """Every plan of the question, memory first; the time of those that fit.

    Ctrl-C ends the search, not the program: what was found until then is the answer.
    Errors: Refused for what no plan can change.
    """
    words, unsupported = structures(question)
    seen = Seen(words)
    one = _Search(question, speed_of(question.device), seen, top, weight)
    try:
        for place in range(len(words)):
            for gpus in question.gpus:
                if progress is not None:
                    progress(f"{seen.plans:,} plans; kinds of plans", place, len(words))
                one.look(place, gpus)
            one.time()
        for each in unsupported:
            for gpus in question.gpus:
                one.count("stack", sum(len(columns["dp"]) for columns in chunks(question, gpus, each)))
    except KeyboardInterrupt:
        seen.interrupted = True
    return seen


@dataclass
class _Search:
    """One search under way. waiting: plans of one structure that fit and have no time yet, which are timed together:
    what a pass takes is worked out once for all of them."""

    question: Question
    speed: Speed
    seen: Seen
    top: int
    weight: Weight
    waiting: Rows = field(default_factory=dict)

    def count(self, reason: str, plans: int) -> None:
        """So many plans more, all ruled out for one reason."""
        self.seen.plans += plans
        self.seen.ruled[reason] += plans

    def look(self, place: int, gpus: int) -> None:
        """The memory of every plan of one structure on so many GPUs; those that fit wait for their time."""
        words = self.seen.words[place]
        for columns in chunks(self.question, gpus, words):
            left = len(columns["dp"])
            self.seen.plans += left
            try:
                run = self.run_of(columns, words)
                rows, ruled = possible(self.question, run, columns)
                self.seen.ruled += ruled
                left = len(rows)
                if left:
                    self._weigh(run, at(columns, rows), place)
            except Refused as refused:
                self._unread(refused, left)
            if len(self.waiting.get("dp", ())) >= WAITING:
                self.time()

    def run_of(self, columns: Columns, words: Mapping[str, Any]) -> Run:
        """The plans of some rows as one run."""
        said = self.question.run_words() | run_words(words) | sizes_of(columns, words)
        return timed_run(self.question.spec, columns=True, **said)

    def time(self) -> None:
        """The time of the plans that wait for it."""
        import numpy as np

        rows, self.waiting = self.waiting, {}
        if not rows:
            return
        words = self.seen.words[int(rows["structure"][0])]
        try:
            found = step_times(self.question.spec, self.speed, self.run_of(rows, words), memory=False)
        except Refused as refused:
            self._unread(refused, len(rows["dp"]))
            return
        known = np.isfinite(found.seconds)
        self.seen.ruled += Counter(time=int((~known).sum()))
        self.seen.timed += int(known.sum())
        timed = {**rows, "seconds": found.seconds, "value": found.seconds * self.weight(rows["gpus"])}
        timed["parts"] = parts(rows, words)
        self.seen.rows = chosen(joined(self.seen.rows, at(timed, known)), self.top)

    def _weigh(self, run: Run, columns: Columns, place: int) -> None:
        """Memory of plans that can be."""
        import numpy as np

        n = len(columns["dp"])
        needs = plan_needs(self.question.spec, weighed(run).placed(sizes_of(columns, self.seen.words[place])))
        gpus = columns["dp"] * columns["tp"] * columns["cp"] * columns["pp"]
        held = {**columns, "gpus": gpus, "peak": needs.peak, "reserved": needs.reserved}
        held["structure"] = np.full(n, float(place))
        self.seen.least = _least(self.seen.least, held)
        fits = needs.reserved <= self.question.budget
        self.seen.ruled += Counter(memory=n - int(fits.sum()))
        if fits.any():
            self.waiting = joined(self.waiting, at(held, fits))

    def _unread(self, refused: Refused, plans: int) -> None:
        self.seen.unread.setdefault(str(refused))
        self.seen.ruled["unread"] += plans


def parts(columns: Columns, words: Mapping[str, Any]) -> Column:
    """How much of a plan is switched on: the fewer, the plainer it is."""
    several = sum((columns[name] > 1) * 1.0 for name in ("tp", "pp", "cp", "ep", "interleave"))
    said = (words["checkpointing"] != "none") + (words["schedule"] != "1f1b") + (not words["sequence_parallel"])
    return several + columns["zero"] / 4 + float(said)


def sizes_of(columns: Columns, words: Mapping[str, Any]) -> dict[str, Column]:
    """The columns of a Run; what a structure says is a number there already."""
    return {name: column for name, column in columns.items() if name in SIZES and name not in words}


def _least(known: Rows, held: Rows) -> Rows:
    """The one of all plans that reserves the least."""
    import numpy as np

    both = joined(known, held)
    return at(both, np.array([int(np.nanargmin(both["reserved"]))]))


def weighed(run: Run) -> Run:
    """The run whose memory is told: of modules that predict further tokens it is not known what they keep."""
    return run.changed(mtp=False)


def runs_of(question: Question, seen: Seen, rows: Rows) -> Iterator[Run]:
    """The plan of each row as a run in whole numbers."""
    for place in range(len(rows["dp"])):
        words = seen.words[int(rows["structure"][place])]
        sizes = {name: int(rows[name][place]) for name in SIZES}
        said: dict[str, Any] = question.run_words() | run_words(words) | sizes
        yield timed_run(question.spec, **said)
