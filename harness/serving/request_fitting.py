"""What a host takes for a request ahead of its engine, fitted to simulations of measured servers.

Closed forms leave out whom a request meets in the queue, so that first tokens told by simulations came later than those
that constants were fitted to. Seconds of the host add to what is simulated; every other constant stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calc.serve.constants import Constants
from calc.serve.rates import request_seconds
from harness.serving.columns import Case
from harness.serving.fitting import DRAWN, ENGINES, HIGHEST, TOLERANCE, TYPICAL, width
from harness.serving.robust import fitted, weights
from harness.serving.scoring import Told, services

OF_REQUESTS = ("request", "reading", *(f"request.{engine}" for engine in ENGINES))
"""Constants that seconds of a request are made of."""


@dataclass(frozen=True, slots=True)
class Waited:
    """A case beside what is simulated of it. rest: seconds to its first token without those of the host."""

    case: Case
    rest: float


def waited(cases: Sequence[Case], given: Constants) -> list[Waited]:
    """Cases whose first tokens tell of a host: nobody waits for room, and no round of requests for compilers."""
    told, found = Told(given), []
    for case in cases:
        row = case.row
        if row.compiled:
            continue
        service, _ = services(row, case.spec, given)
        answered = told.of(row, case.spec)
        if answered.report is None or answered.saturated:
            continue
        found.append(Waited(case, answered.report.ttft.mean - service.request_seconds(round(row.mean_input))))
    return found


def request_fit(cases: Sequence[Case], given: Constants, rounds: int) -> dict[str, float]:
    """The constants with those of requests as they meet first tokens best, beside what all others say of the rest."""
    import numpy as np

    known = waited(cases, given)
    rows = [each.case.row for each in known]
    scale = weights([row.system for row in rows]) / TOLERANCE[1]
    rest, measured = (np.array(each) for each in ([one.rest for one in known], [row.ttft for row in rows]))
    tokens, engines = np.array([row.mean_input for row in rows]), np.array([row.engine for row in rows])

    def residuals(now: Mapping[str, float]) -> Any:
        host = np.zeros(len(rows))
        for engine in set(engines):
            host[engines == engine] = request_seconds(engine, tokens[engines == engine], {**given, **now})
        return np.log((rest + host) / measured) * scale

    begin = {name: TYPICAL.get(name, 1.0) for name in OF_REQUESTS}
    return {**given, **fitted(begin, residuals, width, HIGHEST, rounds, DRAWN)}
