"""A search cut into pieces that any process can look at alone: the same pieces whoever looks at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.plan.checks import possible
from calc.plan.leaders import Rows, at, chosen, joined
from calc.plan.objective import Objective, weight_of
from calc.plan.question import Question
from calc.plan.room import room_of, run_of_rows
from calc.plan.space import Column, Columns, chunks, places
from calc.spec.cache_key import CacheKey
from calc.time.device.speed import Speed
from calc.time.device.speed_of import speed_of
from calc.time.step.plans import step_times
from calc.workers.job import Part

PIECE = 2**17
"""Rows of a piece, about: a second or so of work, as plans of one structure whose times are worked out together."""


class SearchRequest(NamedTuple):
    """What all pieces share. words: of every structure, the first `known` of which the stack can launch. every: whether
    all plans that fit come back, and not only those that an answer can need."""

    question: Question
    words: list[dict[str, Any]]
    known: int
    objective: Objective
    top: int
    every: bool = False


class Piece(NamedTuple):
    """Rows of one structure. spans: (GPUs, first row, the one behind the last), as `space.chunks` counts them."""

    place: int
    spans: tuple[tuple[int, int, int], ...]


def pieces(request: SearchRequest) -> Iterator[Piece]:
    """All of them; every number of GPUs of a structure one after the other."""
    for place, words in enumerate(request.words):
        spans: list[tuple[int, int, int]] = []
        room = PIECE
        for gpus in request.question.gpus:
            first, total = 0, places(request.question, gpus, words)
            while first < total:
                last = min(total, first + room)
                spans.append((gpus, first, last))
                first, room = last, room - (last - first)
                if not room:
                    yield Piece(place, tuple(spans))
                    spans, room = [], PIECE
        if spans:
            yield Piece(place, tuple(spans))


def searched(request: SearchRequest, piece: Piece) -> Part:
    """What one piece finds: plans to keep as columns, and as facts how many there were, what ruled the others out, and
    which holds the least. Errors: Refused for what no plan can change."""
    question, words = request.question, request.words[piece.place]
    found = _Found()
    for gpus, first, last in piece.spans:
        for columns in chunks(question, gpus, words, first, last):
            found.plans += len(columns["dp"])
            if piece.place >= request.known:
                found.ruled["stack"] += len(columns["dp"])
            else:
                _look(request, piece.place, columns, found)
    if found.fitting:
        _time(request, words, found)
    rows = found.rows if request.every or not found.rows else chosen(found.rows, request.top)
    least = {name: float(column[0]) for name, column in found.least.items()}
    facts = {"plans": found.plans, "timed": found.timed, "ruled": dict(found.ruled), "unread": found.unread}
    return Part(rows, {**facts, "least": least})


def parts(columns: Columns, words: Mapping[str, Any]) -> Column:
    """How much of a plan is switched on: the fewer, the plainer it is."""
    several = sum((columns[name] > 1) * 1.0 for name in ("tp", "pp", "cp", "ep", "interleave"))
    parts_named = (words["checkpointing"] != "none") + (words["schedule"] != "1f1b") + (not words["sequence_parallel"])
    parts_named += (words.get("offload", "none") != "none") + (words.get("expert_tp") is not None)
    parts_named += len(words.get("recompute", ()))
    return several + columns["zero"] / 4 + float(parts_named)


def lesser(known: Rows, held: Rows) -> Rows:
    """The one of all plans that reserves the least."""
    import numpy as np

    both = joined(known, held)
    return at(both, np.array([int(np.nanargmin(both["reserved"]))]))


@dataclass
class _Found:
    """One piece under way. fitting: plans that fit, whose time is worked out together; rows: those with a time."""

    plans: int = 0
    timed: int = 0
    ruled: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)
    least: Rows = field(default_factory=dict)
    fitting: Rows = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)

    def refused(self, why: Refused, plans: int) -> None:
        """So many plans of a kind that is not described."""
        if str(why) not in self.unread:
            self.unread.append(str(why))
        self.ruled["unread"] += plans


def _look(request: SearchRequest, place: int, columns: Columns, found: _Found) -> None:
    """The memory of some plans of one structure; those that fit wait for their time."""
    left = len(columns["dp"])
    try:
        run = run_of_rows(request.question, columns, request.words[place])
        rows, ruled = possible(request.question, run, columns)
        found.ruled += ruled
        left = len(rows)
        if left:
            _weigh(request, at(columns, rows), place, found)
    except Refused as refused:
        found.refused(refused, left)


def _weigh(request: SearchRequest, columns: Columns, place: int, found: _Found) -> None:
    """Memory of plans that can be."""
    import numpy as np

    room = room_of(request.question, columns, request.words[place])
    held = {**columns, "gpus": room.gpus, "peak": room.needs.peak, "reserved": room.needs.reserved}
    held["structure"] = np.full(len(room.gpus), float(place))
    found.least = lesser(found.least, held)
    fits = room.on_gpu & room.on_host
    found.ruled += Counter(memory=int((~room.on_gpu).sum()), host=int((room.on_gpu & ~fits).sum()))
    if fits.any():
        found.fitting = joined(found.fitting, at(held, fits))


def _time(request: SearchRequest, words: Mapping[str, Any], found: _Found) -> None:
    """The time of the plans that fit."""
    import numpy as np

    question, rows = request.question, found.fitting
    try:
        run = run_of_rows(question, rows, words)
        seconds = step_times(question.spec, _speed(CacheKey(question)), run, memory=False).seconds
    except Refused as refused:
        found.refused(refused, len(rows["dp"]))
        return
    known = np.isfinite(seconds)
    found.ruled += Counter(time=int((~known).sum()))
    found.timed += int(known.sum())
    timed = {**rows, "seconds": seconds, "value": seconds * weight_of(question, request.objective, rows["gpus"])}
    timed["parts"] = parts(rows, words)
    found.rows = at(timed, known)


@lru_cache(maxsize=8)
def _speed(question: CacheKey[Question]) -> Speed:
    """One object a question, by which passes that are worked out are remembered."""
    return speed_of(question.value.device)
