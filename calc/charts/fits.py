"""Charts of a fit, the runs against the fitted surface, isoFLOP parabolas, the compute frontier."""

from __future__ import annotations

import numpy as np

from calc.charts.scales import INK, axis, dots, line, shades, together, values
from calc.charts.vega import Chart, channel, layer
from calc.fitting.fit import Fit
from calc.fitting.forms import Array
from calc.fitting.frontier import FrontierFit, compute_of
from calc.fitting.optimum import optimum_at

_MOST_POINTS = 3_000
_CURVES = 7
_STEPS = 60


def fit_chart(fit: Fit) -> Chart:
    """Loss against compute: runs, the fitted curves of some of their sizes, and the fitted frontier, coloured by N."""
    runs = fit.runs
    kept = _some(len(runs))
    points = _rows(compute=runs.six_nd[kept], loss=runs.loss[kept], params=runs.params[kept], tokens=runs.tokens[kept])
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
    if fit.optimum is not None:
        budgets = np.geomspace(low, high, _STEPS)
        frontier = [float(optimum_at(fit.theta[None], budget).loss[0]) for budget in budgets]
        rows = _rows(compute=budgets, loss=np.array(frontier))
        layers.append(layer(rows, line(color=INK, strokeDash=[5, 3]), x=x, y=y))
    title = f"{fit.law}: {len(runs):,} runs, fitted curves of some sizes, frontier dashed"
    return together(layers, title)


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
    ]
    title = f"isoFLOP: {len(fit.budgets)} budgets, lowest points marked"
    return together(layers, title)


def _envelope_chart(fit: FrontierFit) -> Chart:
    flop = compute_of(fit.runs)
    kept = _some(len(fit.runs))
    names = fit.runs.curve if fit.runs.curve is not None else np.zeros(len(fit.runs), dtype=str)
    rows = _rows(compute=flop[kept], loss=fit.runs.loss[kept], params=fit.runs.params[kept])
    curves = [row | {"run": str(name)} for row, name in zip(rows, names[kept], strict=True)]
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
