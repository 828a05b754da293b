"""The fit that most runs agree on: what single runs are judged by, for a few bad ones at an edge pull a fit to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calc.errors import Refused
from calc.fitting.runs import Runs

Predict = Callable[[Any, Any], Any]
"""N, D -> the fitted loss: numbers, or arrays."""
Places = np.ndarray[Any, Any]

NEAR = 0.05
"""Of the loss: runs that are all this near to their fit raise no doubt about it."""
_ABOVE = 1.1
"""Times the loss of a run with no more parameters and tokens, beyond which one is wrong: loss falls in both."""
_BETTER = 0.5
"""Of the whole fit's median error: one without some runs that comes below it is what most runs agree on."""
_MOST_WRONG = 0.25
"""Share of the runs: if more contradict others, they are noise or several laws, and no run is to blame."""
_MOST_ROWS = 2_000
"""Comparing pairs of more would take gigabytes; a few bad ones do not pull so many."""


def agreed_by_most(runs: Runs, predict: Predict, refit: Callable[[Places], Predict]) -> Predict:
    """What most runs agree on: `predict`, or a fit without some, if it halves the median error over all runs.

    refit: the same form fitted to the runs at some places, which may raise Refused for too few of them.
    """
    error = log_ratios(runs, predict)
    if len(runs) > _MOST_ROWS or np.abs(error - np.median(error)).max() <= NEAR:
        return predict
    best, least = predict, _BETTER * _middle(error)
    for left in _without_some(runs):
        try:
            other = refit(left)
        except Refused:
            continue
        if (median := _middle(log_ratios(runs, other))) < least:
            best, least = other, median
    return best


def log_ratios(runs: Runs, predict: Predict) -> Any:
    """ln observed - ln predicted of each run; infinite where the fit overflows."""
    with np.errstate(all="ignore"):
        error = np.log(runs.loss) - np.log(predict(runs.params, runs.tokens))
    return np.where(np.isnan(error), np.inf, error)


def _middle(error: Any) -> float:
    return float(np.median(np.abs(error)))


def _without_some(runs: Runs) -> Iterator[Places]:
    """Places of the runs without those that contradict others, and without each edge of the design."""
    wrong = contradicting(runs)
    if wrong.size:
        yield np.delete(np.arange(len(runs)), wrong)
    for sizes in (runs.params, runs.tokens):
        for end in (sizes == sizes.min(), sizes == sizes.max(), *_eighths(sizes)):
            if end.mean() <= _MOST_WRONG:
                yield np.flatnonzero(~end)


def _eighths(sizes: Any) -> tuple[Any, Any]:
    low, high = np.quantile(sizes, (1 / 8, 7 / 8))
    return sizes < low, sizes > high


def contradicting(runs: Runs) -> Places:
    """Places of the fewest runs, found greedily, without which loss rises nowhere with parameters and tokens."""
    n, d, loss = runs.params, runs.tokens, runs.loss
    above = (n[:, None] >= n) & (d[:, None] >= d) & (loss[:, None] > _ABOVE * loss)
    clash = above | above.T
    count = clash.sum(0)
    wrong: list[int] = []
    while count.max(initial=0) and len(wrong) <= _MOST_WRONG * len(runs):
        worst = int(count.argmax())
        wrong.append(worst)
        count -= clash[worst]
        clash[worst] = clash[:, worst] = False
        count[worst] = 0
    return np.array(wrong if len(wrong) <= _MOST_WRONG * len(runs) else [], dtype=int)
