"""Lines of equal loss and of optima over N and D, as numbers that a chart is drawn of."""

from __future__ import annotations

import math
from typing import Any

from calc.laws.base import Law
from calc.laws.uncertainty import drawn, middle

STEPS = 60
_LEVELS = 9
_HALVINGS = 48
"""Of the ratio of 10^4 between the ends of D: what is left of it is below a float's last bits."""
AROUND = 100.0
"""Lines of equal loss are drawn for N and D up to so many times more and fewer than those that are asked for."""


def contours(law: Law, inputs: dict[str, float]) -> list[dict[str, float]]:
    """N, D and loss along lines of equal loss; one of them leads through `inputs`.

    No line is drawn beyond the chart's ends of D; some sizes reach a loss with no number of tokens.
    """
    import numpy as np

    n, d = inputs["params"], inputs["tokens"]
    equation, k = law.equation("loss", set(inputs)), law.k

    def loss(params: Any, tokens: Any) -> Any:
        at = {**inputs, "params": params, "tokens": tokens}
        return equation.rule(k, *(at[name] for name in equation.takes))

    sizes = np.array(spread(n / AROUND, n * AROUND, 4 * STEPS))
    rows = []
    for factor in spread(1 / AROUND, AROUND, _LEVELS + 2)[1:-1]:
        level = loss(n * factor, d * factor)
        low, high = np.full_like(sizes, d / AROUND), np.full_like(sizes, d * AROUND)
        there = (loss(sizes, low) >= level) & (loss(sizes, high) <= level)
        for _ in range(_HALVINGS):
            middle = np.sqrt(low * high)
            above = loss(sizes, middle) >= level
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        found = zip(sizes[there].tolist(), high[there].tolist(), strict=True)
        rows += [{"params": size, "tokens": tokens, "loss": float(level)} for size, tokens in found]
    return rows


def optima(law: Law, n: float, d: float) -> list[dict[str, float]]:
    """N and D of the law's optima, as far as they lie in the chart around n and d."""
    if law.frontier is None:
        return []
    line = law.frontier(law.k)
    ends = [line.compute(params=size) for size in (n / AROUND, n * AROUND)]
    points = ({"params": line.params(c), "tokens": line.tokens(c)} for c in spread(ends[0], ends[1], 4 * STEPS))
    return [point for point in points if d / AROUND <= point["tokens"] <= d * AROUND]


def band(law: Law, n: float, d: float, level: float = 0.95) -> list[dict[str, float]]:
    """Between which tokens a size's optimum lies by the law's own uncertainty, as far as the chart around n and d goes.

    Empty for a law without one, and without optima.
    """
    of = law.frontier
    known = drawn(law)
    if of is None or not known:
        return []
    frontiers = [of(k) for k in known]
    rows = []
    for size in spread(n / AROUND, n * AROUND, STEPS):
        low, high = middle((line.tokens(line.compute(params=size)) for line in frontiers), level)
        if low < d * AROUND and high > d / AROUND:
            rows.append({"params": size, "tokens": max(low, d / AROUND), "most": min(high, d * AROUND)})
    return rows


def spread(low: float, high: float, count: int) -> list[float]:
    """`count` numbers of equal ratios from low to high."""
    ratio = math.log(high / low) / (count - 1)
    return [low * math.exp(i * ratio) for i in range(count)]
