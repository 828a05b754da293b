"""Charts of a fit, the runs against the fitted surface, isoFLOP parabolas, the compute frontier."""

from __future__ import annotations

import numpy as np

from calc.charts.scales import FAINTER, INK, MARK, axis, dots, line, shades, together, values
from calc.charts.vega import Chart, channel, layer
from calc.fitting.fit import Fit
from calc.fitting.forms import Array
from calc.fitting.frontier import FrontierFit, compute_of
from calc.fitting.optimum import optimum_at

_MOST_POINTS = 3_000
_CURVES = 7
_STEPS = 60
_DRAWN = 1_000
"""Refits of which a band is drawn: more move it by less than a line is wide."""


def fit_chart(fit: Fit) -> Chart:
    """Loss against compute: runs, the fitted curves of some of their sizes, coloured by N, and the fitted frontier with
    its band, as far as the compute that the optimum is given at, fainter beyond the runs.
    """
    runs = fit.runs
    drawn = _some(len(runs))
    points = _rows(
        compute=runs.six_nd[drawn], loss=runs.loss[drawn], params=runs.params[drawn], tokens=runs.tokens[drawn]
    )
    low, high = float(runs.six_nd.min()), float(runs.six_nd.max())
    curves = []
    for size in np.geomspace(runs.params.min(), runs.params.max(), _CURVES):
        own = runs.tokens[np.abs(np.log(runs.params / size)) < np.log(2)]
        if not own.size:
            continue
        tokens = np.geomspace(own.min(), own.max(), _STEPS)
        curves += _rows(compute=6 * size * tokens, loss=fit.predict(size, tokens), params=np.full(_STEPS, size))
    x, y = axis("compute", "compute, FLOP (6·N·D)"), axis("loss", "loss")
    colour, of_points = shades("params", "N", *_ends(runs.params))
    layers = [
        layer(
            points,
            dots(size=22, opacity=0.6),
            x=x,
            y=y,
            color=of_points,
            tooltip=values("params", "tokens", "compute", "loss"),
        ),
        layer(curves, line(strokeWidth=1.2), x=x, y=y, color=colour, detail=channel("params", "quantitative")),
    ]
    along = "along their ladder" if fit.form.of_compute else "frontier"
    if fit.optimum is not None or fit.form.of_compute:
        layers += _frontier(fit, low, max(high, fit.compute), high, x, y)
    wide = f" with its {fit.level:.0%} band" if len(fit.refitted) else ""
    title = f"{fit.law}: {len(runs):,} runs, curves of some sizes, {along}{wide} dashed, fainter beyond the runs"
    return together(layers, title)


def _frontier(fit: Fit, low: float, most: float, high: float, x: Chart, y: Chart) -> list[Chart]:
    """The lowest loss of each compute from `low` to `most`, and between which losses the refits have it."""
    budgets = np.unique(np.append(np.geomspace(low, most, _STEPS), high))
    rows = []
    for budget in budgets:
        ends = _at(fit, fit.refitted[:_DRAWN], budget)
        ends = ends[np.isfinite(ends)]
        row = {"compute": float(budget), "loss": float(_at(fit, fit.theta[None], budget)[0])}
        if ends.size:
            row |= dict(
                zip(("least", "most"), np.quantile(ends, ((1 - fit.level) / 2, (1 + fit.level) / 2)), strict=True)
            )
        rows.append(row)
    # The last run's compute belongs to both parts, so that the line has no gap.
    within = [row | {"extrapolated": False} for row in rows if row["compute"] <= high]
    beyond = [row | {"extrapolated": True} for row in rows if row["compute"] >= high]
    rows = within + (beyond if len(beyond) > 1 else [])
    encoding = {"x": x, "y": y, "opacity": FAINTER, "detail": channel("extrapolated", "nominal")}
    found = [layer(rows, line(color=INK, strokeDash=[5, 3]), **encoding, tooltip=values("compute", "loss"))]
    if "least" in rows[0]:
        area = {"type": "area", "color": INK, "fillOpacity": 0.25}
        ends = channel("least", "quantitative", title="loss"), {"field": "most"}
        found.append(layer(rows, area, **{**encoding, "y": {**y, **ends[0]}}, y2=ends[1]))
    if most > high:
        at = {"compute": fit.compute, "loss": float(_at(fit, fit.theta[None], fit.compute)[0])}
        found.append(layer([at], dots(size=70, color=MARK), x=x, y=y, tooltip=values("compute", "loss")))
    return found


def _at(fit: Fit, theta: Array, budget: float) -> Array:
    """The loss at a compute of each set of constants, shape (sets,): of the optimum, or along a ladder."""
    if not fit.form.of_compute:
        return optimum_at(theta, budget).loss
    size = np.sqrt(budget / (6 * np.median(fit.runs.tokens / fit.runs.params)))
    tokens = np.array(budget / (6 * size))
    return np.array([float(fit.form.loss(each, np.array(size), tokens)) for each in theta])


def frontier_chart(fit: FrontierFit) -> Chart:
    """The optima of the budgets over the runs: loss against N for isoFLOP, against compute for an envelope."""
    return _isoflop_chart(fit) if fit.law == "isoflop" else _envelope_chart(fit)


def _isoflop_chart(fit: FrontierFit) -> Chart:
    flop = compute_of(fit.runs)
    points, curves, lowest = [], [], []
    for budget in fit.budgets:
        own = np.abs(np.log(flop / budget.compute)) < np.log(1.2)
        shown = {"budget": budget.compute}
        points += [row | shown for row in _rows(params=fit.runs.params[own], loss=fit.runs.loss[own])]
        sizes = np.geomspace(fit.runs.params[own].min(), fit.runs.params[own].max(), _STEPS)
        fitted = budget.loss + budget.bend * np.log(sizes / budget.params) ** 2
        curves += [row | shown for row in _rows(params=sizes, loss=fitted)]
        lowest.append({"params": budget.params, "loss": budget.loss} | shown)
    x, y = axis("params", "parameters"), axis("loss", "loss")
    colour, of_points = shades("budget", "FLOP", *_ends(np.array([budget.compute for budget in fit.budgets])))
    layers = [
        layer(points, dots(size=20, opacity=0.6), x=x, y=y, color=of_points),
        layer(curves, line(strokeWidth=1.2), x=x, y=y, color=colour, detail=channel("budget", "quantitative")),
        layer(lowest, {"type": "point", "shape": "diamond", "size": 60, "color": INK}, x=x, y=y),
        *_at_budget(fit, x),
    ]
    title = f"isoFLOP: {len(fit.budgets)} budgets, lowest points marked, red: the best size at {fit.compute:.3g} FLOP"
    return together(layers, title)


def _at_budget(fit: FrontierFit, x: Chart) -> list[Chart]:
    """The best size at the compute that is asked for, fainter where no budget is as large, and its band."""
    beyond = fit.compute > max(budget.compute for budget in fit.budgets) * 1.2
    faint = 0.35 if beyond else 1.0
    found = [layer([{"params": fit.optimum["params"]}], {"type": "rule", "color": MARK, "opacity": faint}, x=x)]
    band = fit.intervals.get("params")
    if band is not None:
        area = {"type": "rect", "color": MARK, "opacity": 0.15 * faint}
        found.append(layer([{"params": band.low, "high": band.high}], area, x=x, x2={"field": "high"}))
    return found


def _envelope_chart(fit: FrontierFit) -> Chart:
    flop = compute_of(fit.runs)
    drawn = _some(len(fit.runs))
    names = fit.runs.curve if fit.runs.curve is not None else np.zeros(len(fit.runs), dtype=str)
    rows = _rows(compute=flop[drawn], loss=fit.runs.loss[drawn], params=fit.runs.params[drawn])
    curves = [row | {"run": str(name)} for row, name in zip(rows, names[drawn], strict=True)]
    best = [{"compute": budget.compute, "loss": budget.loss} for budget in fit.budgets]
    x, y = axis("compute", "compute, FLOP"), axis("loss", "loss")
    colour, _ = shades("params", "N", *_ends(fit.runs.params))
    layers = [
        layer(curves, line(strokeWidth=1), x=x, y=y, color=colour, detail=channel("run", "nominal")),
        layer(best, {"type": "point", "size": 12, "color": INK}, x=x, y=y),
    ]
    title = "training curves and their envelope"
    return together(layers, title)


def _ends(values: Array) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _rows(**columns: Array) -> list[dict[str, float]]:
    return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def _some(n: int) -> np.ndarray:
    """All rows, or some spread evenly over them."""
    return np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).astype(int))
