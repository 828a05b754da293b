"""The same question to every law, and how far their answers lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from calc.errors import Refused
from calc.laws import LAWS, find
from calc.laws.base import Law
from calc.optimum.answer import optimal
from calc.optimum.question import ROUTING, Optimum, OptimumRequest
from calc.workers.job import Progress


def optimal_all(
    progress: Progress | None = None, intervals: bool = True, **request: Unpack[OptimumRequest]
) -> list[Optimum | tuple[Law, str]]:
    """The answer of every law that says what is optimal, variants left out; or the law and why it has none.

    progress, intervals: as for `optimal`.
    """
    found: list[Optimum | tuple[Law, str]] = []
    for law in LAWS:
        if (law.frontier is None and law.routed is None) or law.variant_of is not None:
            continue
        if law.routing and not any(request.get(name) is not None for name in (*law.routing, "family")):
            continue  # a law of experts has an answer for a routing alone
        # What one law of experts asks for, another does not know: each is handed its own.
        strange = [name for name in ROUTING if law.routing and name not in law.routing]
        own: Any = {name: value for name, value in request.items() if name not in strange}
        try:
            found.append(optimal(law.name, progress, intervals, **own))
        except Refused as refused:
            found.append((law, str(refused)))
    if all(isinstance(each, tuple) for each in found):
        optimal(**request)  # the default law's own words say best what is wrong with the question
    return found


def spread(answers: Sequence[Optimum | tuple[Law, str]]) -> dict[str, dict[str, float]]:
    """How far laws lie apart: lowest and highest of each number, and their ratio; superseded laws are left out, unless
    there are no others.

    Losses are left out: those of different laws speak of different data.
    """
    found = [answer for answer in answers if isinstance(answer, Optimum)]
    found = [answer for answer in found if not find(answer.law).superseded] or found
    ends: dict[str, dict[str, float]] = {}
    for name in ("compute", "params", "tokens", "tokens_per_param"):
        low, high = (pick(getattr(answer, name) for answer in found) for pick in (min, max))
        ends[name] = {"low": low, "high": high, "ratio": high / low}
    return ends


def left_out(answers: Sequence[Optimum | tuple[Law, str]]) -> list[str]:
    """Names of the superseded laws that `spread` leaves out."""
    names = [answer.law for answer in answers if isinstance(answer, Optimum)]
    old = [name for name in names if find(name).superseded]
    return old if len(old) < len(names) else []
