"""Charts of a fit, as altair specs: the runs against the fitted surface, isoFLOP parabolas, the compute frontier."""

from __future__ import annotations

from typing import Any

import numpy as np

from calc.charts import INK, altair, axis, colours, drawn, together
from calc.fitting.fit import Fit
from calc.fitting.forms import Array
from calc.fitting.frontier import FrontierFit, compute_of
from calc.fitting.optimum import optimum

_MOST_POINTS = 3_000
_CURVES = 7
_STEPS = 60


def fit_chart(fit: Fit) -> Any:
    """Loss against compute: runs, the fitted curves of some of their sizes, and the fitted frontier, coloured by N."""
    alt = altair()
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
    x, y = axis(alt, "compute", "compute, FLOP (6·N·D)"), axis(alt, "loss", "loss")
    colour, of_points = colours(alt, "params", "N", *_ends(runs.params))
    layers = [
        drawn(alt, points)
        .mark_point(filled=True, size=22, opacity=0.6)
        .encode(x=x, y=y, color=of_points, tooltip=["params:Q", "tokens:Q", "compute:Q", "loss:Q"]),
        drawn(alt, curves).mark_line(strokeWidth=1.2).encode(x=x, y=y, color=colour, detail="params:Q"),
    ]
    if fit.optimum is not None:
        budgets = np.geomspace(low, high, _STEPS)
        frontier = [float(optimum(fit.theta[None], budget).loss[0]) for budget in budgets]
        layers.append(
            drawn(alt, _rows(compute=budgets, loss=np.array(frontier)))
            .mark_line(color=INK, strokeDash=[5, 3])
            .encode(x=x, y=y)
        )
    title = f"{fit.law}: {len(runs):,} runs, fitted curves of some sizes, frontier dashed"
    return together(alt, layers, title)


def frontier_chart(fit: FrontierFit) -> Any:
    """The optima of the budgets over the runs: loss against N for isoFLOP, against compute for an envelope."""
    return _isoflop_chart(fit) if fit.law == "isoflop" else _envelope_chart(fit)


def _isoflop_chart(fit: FrontierFit) -> Any:
    alt = altair()
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
    x, y = axis(alt, "params", "parameters"), axis(alt, "loss", "loss")
    colour, of_points = colours(alt, "budget", "FLOP", *_ends(np.array([budget.compute for budget in fit.budgets])))
    layers = [
        drawn(alt, points).mark_point(filled=True, size=20, opacity=0.6).encode(x=x, y=y, color=of_points),
        drawn(alt, curves).mark_line(strokeWidth=1.2).encode(x=x, y=y, color=colour, detail="budget:Q"),
        drawn(alt, lowest).mark_point(shape="diamond", size=60, color=INK).encode(x=x, y=y),
    ]
    title = f"isoFLOP: {len(fit.budgets)} budgets, lowest points marked"
    return together(alt, layers, title)


def _envelope_chart(fit: FrontierFit) -> Any:
    alt = altair()
    flop = compute_of(fit.runs)
    kept = _some(len(fit.runs))
    names = fit.runs.curve if fit.runs.curve is not None else np.zeros(len(fit.runs), dtype=str)
    rows = _rows(compute=flop[kept], loss=fit.runs.loss[kept], params=fit.runs.params[kept])
    curves = [row | {"run": str(name)} for row, name in zip(rows, names[kept], strict=True)]
    best = [{"compute": budget.compute, "loss": budget.loss} for budget in fit.budgets]
    x, y = axis(alt, "compute", "compute, FLOP"), axis(alt, "loss", "loss")
    layers = [
        drawn(alt, curves)
        .mark_line(strokeWidth=1)
        .encode(x=x, y=y, color=colours(alt, "params", "N", *_ends(fit.runs.params))[0], detail="run:N"),
        drawn(alt, best).mark_point(size=12, color=INK).encode(x=x, y=y),
    ]
    title = "training curves and their envelope"
    return together(alt, layers, title)


def _ends(values: Array) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _rows(**columns: Array) -> list[dict[str, float]]:
    return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def _some(n: int) -> np.ndarray:
    """All rows, or some spread evenly over them."""
    return np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).astype(int))
