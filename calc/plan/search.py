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
from calc.plan.launchers import Launcher
from calc.plan.question import SIZES, Question
from calc.plan.space import Column, Columns, chunks, run_words, structures
from calc.spec.run import Run
from calc.time.device.speed import Speed, speed_of
from calc.time.step.plans import step_times
from calc.time.step.timed_run import timed_run

Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and how much there is."""
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
    how = question.launcher
    words, unsupported = structures(question, how)
    seen = Seen(words)
    seen.ruled["stack"] += unsupported
    speed = speed_of(question.device)
    steps = [(place, gpus) for place in range(len(words)) for gpus in question.gpus]
    try:
        for done, (place, gpus) in enumerate(steps):
            if progress is not None:
                progress(f"{seen.plans:,} plans; kinds of plans", done, len(steps))
            _searched(question, how, speed, seen, place, gpus, top, weight)
    except KeyboardInterrupt:
        seen.interrupted = True
    return seen


def _searched(
    question: Question, how: Launcher, speed: Speed, seen: Seen, place: int, gpus: int, top: int, weight: Weight
) -> None:
    """Every plan of one structure on so many GPUs."""
    words = seen.words[place]
    for columns in chunks(question, gpus, words):
        left = len(columns["dp"])
        seen.plans += left
        try:
            said = question.run_words() | run_words(words) | sizes_of(columns, words)
            run = timed_run(question.spec, columns=True, **said)
            rows, ruled = possible(question, how, run, columns)
            seen.ruled += ruled
            left = len(rows)
            if left:
                _weighed(question, speed, seen, run, at(columns, rows), top, weight, place)
        except Refused as refused:
            seen.unread.setdefault(str(refused))
            seen.ruled["unread"] += left


def _weighed(
    question: Question,
    speed: Speed,
    seen: Seen,
    run: Run,
    columns: Columns,
    top: int,
    weight: Weight,
    place: int,
) -> None:
    """Memory of plans that can be, and time of those that fit.

    Errors: Refused, before any of them is counted, where memory or time of their kind is not described.
    """
    import numpy as np

    words, n = seen.words[place], len(columns["dp"])
    needs = plan_needs(question.spec, weighed(run).placed(sizes_of(columns, words)))
    gpus = columns["dp"] * columns["tp"] * columns["cp"] * columns["pp"]
    held = {**columns, "gpus": gpus, "peak": needs.peak, "reserved": needs.reserved, "structure": np.full(n, float(place))}
    seen.least = _least(seen.least, held)
    fits = needs.reserved <= question.budget
    fitting, left = at(held, fits), int(fits.sum())
    if not left:
        seen.ruled["memory"] += n
        return
    found = step_times(question.spec, speed, run.placed(sizes_of(fitting, words)), memory=False)
    known = np.isfinite(found.seconds)
    seen.ruled += Counter(memory=n - left, time=int((~known).sum()))
    seen.timed += int(known.sum())
    timed = {**fitting, "seconds": found.seconds, "mfu": found.seconds * np.nan if found.mfu is None else found.mfu}
    timed["value"] = found.seconds * weight(fitting["gpus"])
    timed["parts"] = parts(fitting, words)
    seen.rows = chosen(joined(seen.rows, at(timed, known)), top)


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
        yield timed_run(question.spec, **question.run_words(), **(run_words(words) | sizes))
