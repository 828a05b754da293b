"""Every combination of sizes, however many: what is best of them, and which no other beats, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from calc import checks
from calc.ask import registry
from calc.ask.sweep import PART, SweepRequest, swept, worded
from calc.errors import Refused
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.workers.job import Job, Part, Progress
from calc.workers.merging import front, smallest
from calc.workers.workers import HERE, Workers

MOST = 10**12
TOP = 10

Bounds = Mapping[str, tuple[float, float]]
"""Quantity -> the least and the most that it may be."""


class Wanted(NamedTuple):
    """What a grid is searched for. axes: size -> its values. least: the quantity that is to be small, and a second one
    where there is one; bounds: what rows have to keep. every: whether all rows that do come back."""

    request: SweepRequest
    axes: Mapping[str, Any]
    least: tuple[str, ...]
    bounds: Bounds
    top: int
    every: bool


@dataclass
class Grid:
    """rows: sizes and quantities by name, float64 columns: the `top` best by the first quantity that is to be small,
    the best first. front: of rows that no other beats in both quantities, where two were named; the first quantity
    grows, of those that are equal in both one stands there. looked: configurations so far, within: those within the
    bounds. interrupted: whether it was ended before it was through."""

    rows: dict[str, Any] = field(default_factory=dict)
    front: dict[str, Any] = field(default_factory=dict)
    looked: int = 0
    within: int = 0
    interrupted: bool = False


def sweep_grid(
    spec: ModelSpec,
    axes: Mapping[str, Sequence[float]],
    least: str | Sequence[str],
    *,
    quantities: Sequence[str] = (),
    bounds: Bounds | None = None,
    top: int = TOP,
    run: Run | None = None,
    workers: Workers = HERE,
    every: bool = False,
    progress: Progress | None = None,
    **words: Any,
) -> Grid:
    """The best of all combinations of sizes, and the front of two quantities; never are all of them in memory.

    axes: as the sizes of `sweep`, each with the values that it takes. least: one or two quantities that are to be
    small. quantities: others to be told. bounds: quantity -> (least, most), both allowed. every: with a folder of
    `workers`, whether all rows within the bounds are kept in it. Ctrl-C ends it with what was found until then.
    Errors: as `sweep`; Refused for no axis, an empty one, too many combinations and more than two to be small.
    """
    aims = (least,) if isinstance(least, str) else tuple(least)
    if not 1 <= len(aims) <= 2:
        raise Refused("least", "one or two quantities", len(aims))
    checks.size("top", top)
    bounds = {registry.find(name).name: pair for name, pair in (bounds or {}).items()}
    aims = tuple(registry.find(name).name for name in aims)
    shown = tuple(dict.fromkeys([*aims, *(registry.find(name).name for name in quantities), *bounds]))
    total = _combinations(axes)
    wanted = Wanted(SweepRequest(spec, shown, worded(run, words)), dict(axes), aims, bounds, top, every)
    found = Grid()
    try:
        for place, part in workers.results(_job(wanted, total)):
            _add(found, part, wanted)
            if progress is not None:
                progress(f"{found.looked:,} configurations; parts", place + 1, -(-total // PART))
    except KeyboardInterrupt:
        found.interrupted = True
    return found


def looked_at(wanted: Wanted, span: tuple[int, int]) -> Part:
    """What some combinations, those from one place up to another, have that the answer can need."""
    import numpy as np

    lengths = [len(values) for values in wanted.axes.values()]
    places = np.unravel_index(np.arange(*span), lengths)
    sizes = {
        name: checks.size(name, np.asarray(values, dtype=float)[at], 0 if name == "zero" else 1)
        for (name, values), at in zip(wanted.axes.items(), places, strict=True)
    }
    rows = {**sizes, **swept(wanted.request, sizes).columns}
    within = np.ones(span[1] - span[0], dtype=bool)
    for name in wanted.least:
        within &= np.isfinite(rows[name])
    for name, (low, high) in wanted.bounds.items():
        within &= (rows[name] >= low) & (rows[name] <= high)
    rows = {name: column[within] for name, column in rows.items()}
    facts = {"looked": span[1] - span[0], "within": int(within.sum())}
    return Part(rows if wanted.every else _needed(rows, wanted), facts)


def _needed(rows: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
    """The rows that an answer can need, in the order in which they stand."""
    import numpy as np

    keep = np.zeros(len(rows[wanted.least[0]]), dtype=bool)
    keep[smallest(rows[wanted.least[0]], wanted.top)] = True
    if len(wanted.least) == 2:
        keep[front(*(rows[name] for name in wanted.least))] = True
    return {name: column[keep] for name, column in rows.items()}


def _add(found: Grid, part: Part, wanted: Wanted) -> None:
    """Parts come in their order, so that of equal rows the same is kept every time."""
    import numpy as np

    found.looked += part.facts["looked"]
    found.within += part.facts["within"]

    def joined(rows: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.concatenate([rows[name], column]) if rows else column for name, column in part.columns.items()}

    best = joined(found.rows)
    places = smallest(best[wanted.least[0]], wanted.top)
    found.rows = {name: column[places] for name, column in best.items()}
    if len(wanted.least) == 2:
        on_front = joined(found.front)
        places = front(*(on_front[name] for name in wanted.least))
        found.front = {name: column[places] for name, column in on_front.items()}


def _job(wanted: Wanted, total: int) -> Job:
    return Job("grid", lambda: _described(wanted), looked_at, wanted, _spans(total), -(-total // PART))


def _described(wanted: Wanted) -> dict[str, Any]:
    """All that the rows depend on, as JSON values."""
    facts: dict[str, Any] = {"axes": {name: [float(value) for value in values] for name, values in wanted.axes.items()}}
    facts |= {"bounds": {name: [repr(each) for each in pair] for name, pair in wanted.bounds.items()}}
    facts |= {"least": list(wanted.least), "top": wanted.top, "every": wanted.every}
    return wanted.request.described() | facts


def _spans(total: int) -> Iterator[tuple[int, int]]:
    return ((at, min(total, at + PART)) for at in range(0, total, PART))


def _combinations(axes: Mapping[str, Sequence[float]]) -> int:
    if not axes or not all(len(values) for values in axes.values()):
        raise Refused("axes", "one or more sizes, each with values", "none" if not axes else "one without")
    total = math.prod(len(values) for values in axes.values())
    if total > MOST:
        raise Refused("axes", f"at most {MOST:,} combinations", f"{total:,}")
    return total
