"""Charts of an optimum and of a loss, as altair specs: isoFLOP curves, frontiers of laws, lines of equal loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from calc.charts import INK, MARK, altair, axis, colours, drawn, together
from calc.errors import Refused
from calc.laws import DEFAULT, LAWS, find
from calc.laws.base import Law
from calc.optimum.answer import optimal, problem_of, routed
from calc.optimum.lines import AROUND, STEPS, band, contours, optima, spread
from calc.optimum.prediction import loss as predict
from calc.optimum.question import Asked, Optimum
from calc.optimum.search import Problem

_BUDGETS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""IsoFLOP curves are drawn at these multiples of the answer's compute, for sizes up to _SIZES times off the best."""
_SIZES = 8.0


def isoflop_chart(law: str = DEFAULT, **asked: Unpack[Asked]) -> Any:
    """Loss against N at the compute of the optimum that is asked for and at others around it, the optimum marked.

    A law without a loss of the form E + A / N^alpha + B / D^beta has `frontier_chart` instead.
    Errors: as `calc.optimal`, and Refused without the extra `charts`.
    """
    answer = optimal(law, **asked)
    problem = problem_of(routed(find(law), asked), asked)
    if problem.form is None:
        return frontier_chart([answer])
    alt = altair()
    curves, lowest = _isoflops(problem, answer.compute)
    x, y = axis(alt, "params", "N, parameters"), axis(alt, "loss", "loss, nats a token")
    colour, _ = colours(alt, "compute", "FLOP", lowest[0]["compute"], lowest[-1]["compute"])
    point = [{"params": answer.params, "loss": answer.loss}]
    layers = [
        drawn(alt, [row | {"extrapolated": _beyond(problem.law, row)} for row in curves])
        .mark_line(strokeWidth=1.4)
        .encode(
            x=x,
            y=y,
            color=colour,
            opacity=_fainter(alt),
            detail=["compute:Q", "extrapolated:N"],
            tooltip=["compute:Q", "params:Q", "tokens:Q", "loss:Q"],
        ),
        drawn(alt, lowest).mark_line(color=INK, strokeDash=[5, 3]).encode(x=x, y=y),
        drawn(alt, point).mark_point(filled=True, size=70, color=MARK).encode(x=x, y=y),
    ]
    wide = answer.interval.get("params")
    if wide is not None:
        # An end without bound, or far off, is cut where the curves end.
        ends = min(row["params"] for row in curves), max(row["params"] for row in curves)
        rule = [{"params": max(wide.low, ends[0]), "high": min(wide.high, ends[1]), "loss": answer.loss}]
        layers.append(drawn(alt, rule).mark_rule(color=MARK).encode(x=x, x2=alt.X2("high:Q"), y=y))
    said = f" with its {wide.level:.0%} band" if wide is not None else ""
    what = f"{law}: isoFLOP curves, fainter where extrapolated, their lowest points dashed, the answer{said} in red"
    return together(alt, layers, what)


def frontier_chart(answers: Sequence[Optimum]) -> Any:
    """N against compute along the closed form of each answer's law, and the answers marked.

    Errors: Refused without the extra `charts`.
    """
    alt = altair()
    low, high = min(a.compute for a in answers) / AROUND, max(a.compute for a in answers) * AROUND
    lines = []
    for law in (find(answer.law).at(**answer.routing) for answer in answers):
        if law.frontier is not None:
            line = law.frontier(law.k)
            at = ({"compute": c, "params": line.params(c), "tokens": line.tokens(c)} for c in spread(low, high, 25))
            lines += [row | {"law": law.name, "extrapolated": _beyond(law, row)} for row in at]
    points = [{"law": a.law, "compute": a.compute, "params": a.params, "tokens": a.tokens} for a in answers]
    x, y = axis(alt, "compute", "C, FLOP of training"), axis(alt, "params", "N, parameters", upright=True)
    names = [answer.law for answer in answers]
    scale = alt.Scale(domain=names, scheme="category20")
    colour, of_points = (alt.Color("law:N", scale=scale, title="law", legend=shown) for shown in (alt.Legend(), None))
    layers = [
        drawn(alt, lines)
        .mark_line(strokeWidth=1.4)
        .encode(x=x, y=y, color=colour, opacity=_fainter(alt), detail="extrapolated:N"),
        drawn(alt, points)
        .mark_point(filled=True, size=45)
        .encode(x=x, y=y, color=of_points, tooltip=["law:N", "compute:Q", "params:Q", "tokens:Q"]),
    ]
    return together(
        alt, layers, "compute-optimal size by law, fainter where extrapolated; each counts N and C its own way"
    )


def loss_chart(law: str = DEFAULT, **inputs: float) -> Any:
    """Lines of equal loss over N and D around what is asked for, with the law's frontier where it says what is optimal.

    Errors: as `calc.loss`; Refused for a loss that is not one of params and tokens, and without the extra `charts`.
    """
    prediction = predict(law, **inputs)
    if not {"params", "tokens"} <= set(inputs):
        raise Refused("--chart", "--params and --tokens, which its axes are", " and ".join(inputs))
    alt = altair()
    entry, n, d = find(law), prediction.inputs["params"], prediction.inputs["tokens"]
    lines = contours(entry, dict(prediction.inputs))
    losses = [row["loss"] for row in lines]
    x, y = axis(alt, "params", "N, parameters"), axis(alt, "tokens", "D, tokens", upright=True)
    colour, _ = colours(alt, "loss", "loss", min(losses), max(losses))
    layers = [
        drawn(alt, lines)
        .mark_line(strokeWidth=1.4)
        .encode(x=x, y=y, color=colour, detail="loss:Q", tooltip=["loss:Q", "params:Q", "tokens:Q"]),
        drawn(alt, [{"params": n, "tokens": d}]).mark_point(filled=True, size=70, color=MARK).encode(x=x, y=y),
    ]
    frontier = optima(entry, n, d)
    if frontier:
        layers.append(drawn(alt, frontier).mark_line(color=INK, strokeDash=[5, 3]).encode(x=x, y=y))
    fresh = " of fresh tokens" if "unique_tokens" in inputs else ""
    dashed = f", frontier{fresh} dashed" if frontier else ""
    return together(alt, layers, f"{law}: lines of equal loss{dashed}, {prediction.loss:.4f} in red")


def plane_chart(law: str, params: float, tokens: float, **routing: float) -> Any:
    """N on D as a point among the optima of every law (variants left out), and of this law lines of equal loss and the
    band of its optima, as far as it has them. routing: of a law of experts, as `calc.laws.Law.at` takes it.

    Errors: Refused for an unknown law, and without the extra `charts`.
    """
    alt = altair()
    entry = find(law).at(**routing)
    x, y = axis(alt, "params", "N, parameters"), axis(alt, "tokens", "D, tokens", upright=True)
    layers = []
    wide = band(entry, params, tokens)
    if wide:
        layers.append(
            drawn(alt, wide)
            .mark_area(opacity=0.18, color=INK)
            .encode(x=x, y=y, y2=alt.Y2("most:Q"), tooltip=["params:Q", "tokens:Q", "most:Q"])
        )
    at = {"params": params, "tokens": tokens, **routing}
    known = any(each.gives == "loss" and set(each.takes) == set(at) for each in entry.equations)
    equal = contours(entry, at) if known else []
    if equal:
        losses = [row["loss"] for row in equal]
        colour, _ = colours(alt, "loss", f"loss, {law}", min(losses), max(losses))
        layers.append(
            drawn(alt, equal)
            .mark_line(strokeWidth=1, opacity=0.8)
            .encode(x=x, y=y, color=colour, detail="loss:Q", tooltip=["loss:Q", "params:Q", "tokens:Q"])
        )
    shown = {each.name: each for each in LAWS if each.frontier is not None and each.variant_of is None} | {law: entry}
    lines = [
        row | {"law": name, "extrapolated": _beyond(each, row)}
        for name, each in shown.items()
        for row in optima(each, params, tokens)
    ]
    own = alt.condition(f"datum.law == '{law}'", alt.value(3.5), alt.value(1.3))
    layers += [
        drawn(alt, lines)
        .mark_line(strokeDash=[6, 3])
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "law:N",
                scale=alt.Scale(domain=list(shown), scheme="category20"),
                title="optima by",
                legend=alt.Legend(orient="bottom", columns=alt.ExprRef("width < 400 ? 2 : 3")),
            ),
            strokeWidth=own,
            opacity=_fainter(alt),
            detail="extrapolated:N",
            tooltip=["law:N", "params:Q", "tokens:Q"],
        ),
        drawn(alt, [{"params": params, "tokens": tokens}])
        .mark_point(filled=True, size=160, color=MARK, shape="diamond", opacity=1)
        .encode(x=x, y=y, tooltip=["params:Q", "tokens:Q"]),
    ]
    return together(alt, layers, "")


def _beyond(law: Law, at: Mapping[str, Any]) -> bool:
    """Whether a point lies outside of what the law was fitted on."""
    return bool(law.outside(**{name: at.get(name) for name in ("compute", "params", "tokens")}))


def _fainter(alt: Any) -> Any:
    """What is extrapolated shows through."""
    return alt.condition("datum.extrapolated", alt.value(0.35), alt.value(1.0))


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
