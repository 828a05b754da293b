"""Charts of an optimum: isoFLOP curves, frontiers of laws."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Unpack

from calc.charts.extrapolated import beyond, pieces
from calc.charts.scales import FAINTER, INK, MARK, axis, dots, line, shades, together, values
from calc.charts.vega import Chart, channel, layer
from calc.errors import Refused
from calc.laws import DEFAULT, find
from calc.laws.base import Law
from calc.laws.uncertainty import drawn, middle
from calc.optimum.answer import optimal, problem_of, routed
from calc.optimum.bands import LEVEL
from calc.optimum.lines import AROUND, STEPS, spread
from calc.optimum.question import Optimum, OptimumRequest
from calc.optimum.search import Problem

_BUDGETS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""IsoFLOP curves are drawn at these multiples of the answer's compute, for sizes up to _SIZES times off the best."""
_SIZES = 8.0


def isoflop_chart(law: str = DEFAULT, **request: Unpack[OptimumRequest]) -> Chart:
    """Loss against N at the compute of the optimum that is asked for and at others around it, the optimum marked.

    A law without a loss of the form E + A / N^alpha + B / D^beta has `frontier_chart` instead.
    Errors: as `calc.optimal`.
    """
    answer = optimal(law, **request)
    problem = problem_of(routed(find(law), request), request)
    if problem.form is None:
        return frontier_chart([answer])
    curves, lowest = _isoflops(problem, answer.compute)
    x, y = axis("params", "N, parameters"), axis("loss", "loss, nats a token")
    colour, _ = shades("compute", "FLOP", lowest[0]["compute"], lowest[-1]["compute"])
    point = [{"params": answer.params, "loss": answer.loss}]
    layers = [
        layer(
            pieces(problem.law, curves, "compute"),
            line(strokeWidth=1.4),
            x=x,
            y=y,
            color=colour,
            opacity=FAINTER,
            detail=channel("piece", "nominal"),
            tooltip=values("compute", "params", "tokens", "loss"),
        ),
        layer(lowest, line(color=INK, strokeDash=[5, 3]), x=x, y=y),
        layer(point, dots(size=70, color=MARK), x=x, y=y),
    ]
    wide = answer.interval.get("params")
    if wide is not None:
        # An end without bound, or far off, is cut where the curves end.
        ends = min(row["params"] for row in curves), max(row["params"] for row in curves)
        rule = [{"params": max(wide.low, ends[0]), "high": min(wide.high, ends[1]), "loss": answer.loss}]
        layers.append(layer(rule, {"type": "rule", "color": MARK}, x=x, x2={"field": "high"}, y=y))
    band_note = f" with its {wide.level:.0%} band" if wide is not None else ""
    what = f"{law}: isoFLOP curves, fainter where extrapolated, lowest points dashed, answer{band_note} in red"
    return together(layers, what)


def frontier_chart(answers: Sequence[Optimum]) -> Chart:
    """N against compute along the closed form of each answer's law, with its band where one is known, and the answers
    marked.
    """
    low, high = min(a.compute for a in answers) / AROUND, max(a.compute for a in answers) * AROUND
    lines, wide = [], []
    for law in (find(answer.law).at(**answer.routing) for answer in answers):
        if law.frontier is not None:
            frontier = law.frontier(law.k)
            at = (
                {"compute": c, "params": frontier.params(c), "tokens": frontier.tokens(c)}
                for c in spread(low, high, 25)
            )
            own = _joined([row | {"law": law.name, "extrapolated": beyond(law, row)} for row in at])
            lines += own
            wide += _with_ends(law, own)
    points = [{"law": a.law, "compute": a.compute, "params": a.params, "tokens": a.tokens} for a in answers]
    x, y = axis("compute", "C, FLOP of training"), axis("params", "N, parameters")
    names = [answer.law for answer in answers]
    colour = channel("law", "nominal", scale={"domain": names, "scheme": "category20"}, title="law")
    tooltip = [channel("law", "nominal"), *values("compute", "params", "tokens")]
    layers = [
        layer(
            lines,
            line(strokeWidth=1.4),
            x=x,
            y=y,
            color=colour,
            opacity=FAINTER,
            detail=channel("extrapolated", "nominal"),
        ),
        layer(points, dots(size=45), x=x, y=y, color={**colour, "legend": None}, tooltip=tooltip),
    ]
    if wide:
        area = {"type": "area", "fillOpacity": 0.2}
        encoding = {
            "opacity": FAINTER,
            "detail": channel("extrapolated", "nominal"),
            "color": {**colour, "legend": None},
        }
        ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
        layers.append(layer(wide, area, x=x, **ends, **encoding))
    band_note = "; shaded: 95 % by its own data" if wide else ""
    return together(layers, f"compute-optimal size by law, fainter where extrapolated{band_note}")


def _joined(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with one that belongs to both parts wherever what is fitted meets what is extrapolated: no gap."""
    both = [
        later | {"extrapolated": row["extrapolated"]}
        for row, later in pairwise(rows)
        if row["extrapolated"] != later["extrapolated"]
    ]
    return sorted(rows + both, key=lambda row: row["compute"])


def _with_ends(law: Law, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Points of a frontier with the ends of N over the law's draws; none for a law without draws."""
    known = drawn(law)
    if not known or law.frontier is None:
        return []
    frontiers = [law.frontier(k) for k in known]
    bands = [middle((each.params(row["compute"]) for each in frontiers), LEVEL) for row in rows]
    return [row | {"low": low, "high": high} for row, (low, high) in zip(rows, bands, strict=True)]


def _isoflops(problem: Problem, compute: float) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Points of the curves, and their lowest ones; budgets out of reach of what is looked at are left out."""
    costs = problem.costs

    def point(x: float, budget: float) -> dict[str, float]:
        params, tokens = costs.size(x), budget / costs.train(x)
        return {"compute": budget, "params": params, "tokens": tokens, "loss": problem.loss(params, tokens)}

    curves, lowest = [], []
    for budget in (compute * factor for factor in _BUDGETS):
        try:
            best, _ = problem.best(budget)
        except Refused:
            continue
        lowest.append(point(best, budget))
        ends = max(costs.low, best / _SIZES), min(costs.high, best * _SIZES)
        curves += [point(x, budget) for x in spread(*ends, STEPS)]
    if problem.plain:  # a closed form: as many points as a smooth line needs
        between = spread(compute * _BUDGETS[0], compute * _BUDGETS[-1], STEPS)
        lowest = [point(problem.best(budget)[0], budget) for budget in between]
    return curves, lowest
