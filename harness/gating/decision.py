"""The rule by which a case is called slower: pure numbers, so that it can be tried on any noise that one can think of.

What is compared are processes, not samples. Two processes that run the same code differ for as long as they live,
because their memory lies elsewhere, and no number of samples tells that apart from a change of the code. So each side
has several processes of its own, which are sampled in turn, a round after the other:

1. A round holds one sample of every process, as ln(seconds). What its samples have in common, their median, is how the
   machine was just then; it is taken away. Drifts and steps of the whole machine leave with it.
2. A process is represented by the median over its rounds. Spikes leave with that.
3. The change is the difference of the two sides' means. Its interval is Student's for two samples of equal variance,
   with the spread of processes that run the *same* code, A against A and B against B, as the measure of noise.

Half of the interval is the case's noise floor: what A against A may show here and now. SLOWER and FASTER ask that the
whole interval lies beyond a change of `LEAST`; SAME, that it lies within `MOST`; all else is AMBIGUOUS, is measured
once more in new processes, and is judged on all of them together.

Source: Kalibera & Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013 (repetition at the level that varies).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

Verdict = Literal["SAME", "FASTER", "SLOWER", "AMBIGUOUS"]
Session = tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]
"""Seconds of the processes of side A and of those of side B, each [processes][rounds]; all of them ran together."""

LEAST = 0.03
"""A change that is smaller than this is none, however surely it was seen."""
MOST = 0.10
"""A change that is larger than this must be excluded before two sides count as the same."""
LEVEL = 0.998
"""Of the interval: one A/A comparison in 1,000 lies above it by chance, before LEAST is asked for too."""
QUIETEST = 0.002
"""Relative spread of processes below which none is believed: clocks and rounding have as much."""


class Change(NamedTuple):
    """B against A. ratio: seconds of B over those of A, with its interval; floor: half the interval's width, relative:
    what two equal sides may differ by here. processes: on each side."""

    verdict: Verdict
    ratio: float
    low: float
    high: float
    floor: float
    processes: int


def decide(sessions: Sequence[Session], least: float = LEAST, most: float = MOST, level: float = LEVEL) -> Change:
    """The verdict on all sessions together.

    Errors: ValueError where a side has fewer than two processes in all, or a time is not positive.
    """
    a, b = _offsets(sessions)
    if min(len(a), len(b)) < 2:
        raise ValueError(f"sessions: expected at least two processes on each side, found {len(a)} and {len(b)}")
    middle, half = _interval(a, b, level)
    low, high = middle - half, middle + half
    slow, fast = math.log1p(least), -math.log1p(least)
    verdict: Verdict = "SAME" if max(high, -low) < math.log1p(most) else "AMBIGUOUS"
    if low > slow:
        verdict = "SLOWER"
    elif high < fast:
        verdict = "FASTER"
    return Change(verdict, math.exp(middle), math.exp(low), math.exp(high), math.expm1(half), min(len(a), len(b)))


def _offsets(sessions: Sequence[Session]) -> tuple[list[float], list[float]]:
    """ln(seconds) of every process of A and of B, over what it shares with those it ran beside."""
    import numpy as np

    sides: tuple[list[float], list[float]] = ([], [])
    for session in sessions:
        times = np.array([row for side in session for row in side], dtype=float)
        if not (np.isfinite(times).all() and (times > 0).all()):
            raise ValueError("sessions: expected positive times")
        logs = np.log(times)
        own = np.median(logs - np.median(logs, axis=0), axis=1)
        count = len(session[0])
        # Sessions differ in what is taken away; each has both sides, so its own middle lies between them.
        own = own - (own[:count].mean() + own[count:].mean()) / 2
        sides[0].extend(own[:count].tolist())
        sides[1].extend(own[count:].tolist())
    return sides


def _interval(a: Sequence[float], b: Sequence[float], level: float) -> tuple[float, float]:
    """The difference of the means, B over A, and half its interval by Student's t with a pooled variance."""
    from statistics import fmean

    from scipy.special import stdtrit

    freedom = len(a) + len(b) - 2
    squares = sum((value - fmean(side)) ** 2 for side in (a, b) for value in side)
    spread = max(math.sqrt(squares / freedom), QUIETEST)
    error = spread * math.sqrt(1 / len(a) + 1 / len(b))
    return fmean(b) - fmean(a), float(stdtrit(freedom, (1 + level) / 2)) * error
