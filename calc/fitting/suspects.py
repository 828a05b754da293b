"""Runs that a fit does not explain: single ones that lie far off it, and pools of them that lie apart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from calc.fitting.columns import brief
from calc.fitting.majority import NEAR, Predict, log_ratios
from calc.fitting.runs import Runs

_FAR = 6.0
"""Robust standard deviations (1.4826 times the median absolute one) from which a run is called far off."""
_DIVERGED = 1.1
"""Times the fitted loss, from which a run that nothing else explains is asked whether it diverged."""
_SHOWN = 4
_APART = 4.0
"""Standard errors by which pools must lie apart to be called different."""


class FarRun(NamedTuple):
    """A run far off the fit. at: its place. off: its loss over the fitted one, less 1. why: what would explain it."""

    at: int
    off: float
    why: str


def far_runs(runs: Runs, predict: Predict) -> list[FarRun]:
    """Runs that lie far off, the farthest first. predict: what most runs agree on (`majority.agreed_by_most`)."""
    error = log_ratios(runs, predict)
    middle = np.median(error)
    wide = max(_FAR * 1.4826 * float(np.median(np.abs(error - middle))), NEAR)
    places = np.flatnonzero(~(np.abs(error - middle) <= wide))
    order = places[np.argsort(-np.abs(error[places]))]
    return [FarRun(int(at), float(np.expm1(error[at])), _explained(runs, int(at), predict, wide)) for at in order]


def sentence(runs: Runs, found: list[FarRun], hint: str = "--skip-far leaves such runs out") -> Iterator[str]:
    """The runs by name, in one sentence, and what can be done about them."""
    if not found:
        return
    some = ", ".join(f"{runs.named(each.at)} {each.off:+.0%}{each.why}" for each in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    yield f"far off the fit: {some}{more}; {hint}"


def apart(runs: Runs, predict: Predict) -> Iterator[str]:
    """Pools whose runs lie higher or lower than others at equal parameters and tokens."""
    error = log_ratios(runs, predict)
    for column, labels in runs.pools.items():
        names, which = np.unique(labels, return_inverse=True)
        count = np.bincount(which)
        means = np.bincount(which, error) / count
        noise = np.sqrt(((error - means[which]) ** 2).sum() / max(error.size - names.size, 1) / count)
        low, high = int(means.argmin()), int(means.argmax())
        gap = means[high] - means[low]
        shown = ", ".join(brief(str(name), 24) for name in names[:_SHOWN]) + ", …" * (names.size > _SHOWN)
        subject = f"{names.size} values of {column} ({shown}) are pooled"
        if gap > _APART * np.hypot(noise[low], noise[high]):
            subject += f" and lie {np.expm1(gap):.2%} apart at equal sizes"
        yield f'{subject}: --where "{column}=…" takes one'


def _explained(runs: Runs, at: int, predict: Predict, wide: float) -> str:
    """The mislabelling that would bring a run onto the fit; else, where it lies high, that it diverged."""
    n, d, loss = (float(each[at]) for each in (runs.params, runs.tokens, runs.loss))
    tried = [("swap its parameters and tokens", d, n, loss)]
    if loss > 1:
        tried.append(("a perplexity", n, d, math.log(loss)))
    for factor, times in ((1e3, "1,000 times"), (10, "10 times"), (0.1, "a tenth of"), (1e-3, "a thousandth of")):
        tried.append((f"{times} the parameters", factor * n, d, loss))
        tried.append((f"{times} the tokens", n, factor * d, loss))
    for why, params, tokens, value in tried:
        with np.errstate(all="ignore"):  # constants far off overflow at sizes that no run had
            expected = float(predict(params, tokens))
        if 0 < expected < math.inf and abs(math.log(value / expected)) < wide / 3:
            return f" ({why}?)"
    return " (diverged?)" if loss > _DIVERGED * predict(n, d) else ""
