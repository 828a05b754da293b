"""What the runs cannot tell: constants that their sizes, or the fit itself, leave undetermined."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from calc.errors import Refused
from calc.fitting.forms import ALPHA, BETA, LN_A, LN_B, LN_E, LN_K, Array, Form
from calc.fitting.runs import Runs
from calc.laws.uncertainty import Interval

_SAME = 0.02
"""Sizes this close in ln are one size: counts of one model differ by that with what is counted."""
_TOGETHER = 0.995
"""Correlation of ln N with ln D from which their effects cannot be told apart."""
_RANK = 1e-6
"""Smallest against largest singular value of the scaled Jacobian: below it a direction moves no prediction."""
_WIDE = 10
"""Upper end of an interval over its lower, from which a constant is called uncertain."""


def refuse_too_few(form: Form, runs: Runs) -> None:
    """Errors: Refused for fewer distinct runs than the form has constants."""
    places = runs.six_nd[None] if form.of_compute else np.stack([runs.params, runs.tokens])
    n, constants = len(np.unique(places, axis=1).T), len(form.free)
    if n < constants:
        raise Refused("runs", f"at least {constants} of different sizes, a constant of {form.name} each", f"{n}")


def distinct(values: Array) -> int:
    """How many sizes there are, sizes within 2 % of the smallest of a group being one; ten stands for ten and more."""
    left = np.sort(np.log(values))
    count = 0
    while left.size and count < 10:
        left = left[np.searchsorted(left, left[0] + _SAME, side="right") :]
        count += 1
    return count


class Undetermined(NamedTuple):
    """Constants, as places in a full set, that no more runs of the same sizes would settle, and why."""

    places: tuple[int, ...]
    why: str


def confounded(form: Form, runs: Runs) -> list[Undetermined]:
    """What the design alone leaves open: then no optimum can be told from these runs."""
    return list(_confounded(form, runs))


def ladder(runs: Runs) -> str:
    """Why the effects of N and D cannot be told apart where the one grows with the other; empty where they can."""
    together = _correlation(runs)
    if together <= _TOGETHER:
        return ""
    ratio = runs.tokens / runs.params
    of = f", {ratio.min():.3g} to {ratio.max():.3g} tokens a parameter" if ratio.max() < 2 * ratio.min() else ""
    return f"parameters and tokens move together (correlation of their logarithms {together:.3f}{of})"


def _correlation(runs: Runs) -> float:
    """Of ln N with ln D; 0 where one of them does not vary."""
    log_n, log_d = np.log(runs.params), np.log(runs.tokens)
    if min(log_n.std(), log_d.std()) <= _SAME:
        return 0.0
    return float(np.corrcoef(log_n, log_d)[0, 1])


def _confounded(form: Form, runs: Runs) -> Iterator[Undetermined]:
    if form.of_compute:
        sizes = distinct(runs.six_nd)
        if sizes < len(form.free):
            open_ = tuple(place for group in form.free for place in group)
            yield Undetermined(open_, f"{sizes} distinct computes, {len(form.free)} needed: K, gamma, E cannot be told")
        return
    tied = (ALPHA, BETA) in form.free
    for what, values, places in (("parameters", runs.params, (LN_A, ALPHA)), ("tokens", runs.tokens, (LN_B, BETA))):
        sizes = distinct(values)
        # One exponent for both is known from the other side, as is a fixed one; two sizes then give the coefficient.
        least = 2 if tied or (places[1],) not in form.free else 3
        if sizes < least:
            among = [*places, LN_E, LN_K]
            if form.bends and (LN_E,) in form.free:
                among = list(range(6))  # a bend can be traded against every other constant
            among = [place for place in among if any(place in group for group in form.free)]
            named = ", ".join(form.names[place] for place in among)
            yield Undetermined(
                tuple(among),
                f"{sizes} distinct number{'s' * (sizes > 1)} of {what}, {least} needed: {named} cannot be told",
            )
    together = _correlation(runs)
    if together < -_TOGETHER:
        # At one budget, where the one grows as the other falls, any floor can be traded against both as well.
        yield Undetermined(
            tuple(place for group in form.free for place in group),
            f"parameters and tokens move against each other (correlation of their logarithms {together:.3f}): the "
            "effect of one cannot be told from the other's, and no optimum follows",
        )


def degenerate(form: Form, theta: Array, jacobian: Array, unknown: Collection[str]) -> Iterator[Undetermined]:
    """What the fit itself leaves open, of full constants and the derivatives by the moving ones, (constants, runs).

    unknown: names of constants that the design leaves open: of those nothing more is said.
    """
    for place, factor, what in ((ALPHA, LN_A, "parameters"), (BETA, LN_B, "tokens")):
        if theta[place] <= 0 and (name := form.names[place]) and name not in unknown:
            yield Undetermined(
                (factor, place), f"{name} is not above zero: in these runs more {what} do not lower the loss"
            )
    if unknown:
        return
    size = np.sqrt((jacobian**2).mean(axis=1))
    for column, places in enumerate(form.free):
        if places == (LN_E,) and size[column] < _RANK:
            yield Undetermined(places, "E has gone to zero: these runs show no floor")
        elif places in ((LN_A,), (LN_B,)) and size[column] < _RANK:
            term, exponent = ("A/N^alpha", ALPHA) if places == (LN_A,) else ("B/D^beta", BETA)
            # An exponent that both terms share is still told by the other.
            gone = places if (ALPHA, BETA) in form.free else (*places, exponent)
            yield Undetermined(gone, f"the term {term} has gone to zero: these runs are explained without it")
    there = size > 1e-12
    scaled = jacobian[there] / size[there, None]
    _, singular, directions = np.linalg.svd(scaled @ scaled.T / jacobian.shape[1])
    # Of the product of the Jacobian with itself, singular values are those of the Jacobian squared.
    flat = directions[singular < _RANK**2 * singular[:1]]
    if flat.size:
        places = [form.free[i][0] for i in np.flatnonzero(there)]
        open_ = tuple(place for place, part in zip(places, np.abs(flat).max(axis=0), strict=True) if part > 0.1)
        named = ", ".join(form.names[place] for place in open_)
        yield Undetermined(
            open_, f"these runs do not determine {named}: they can move together and change no prediction"
        )


def uncertain(intervals: Mapping[str, Interval | None]) -> Iterator[str]:
    """Constants whose interval is wide, or missing."""
    for name, interval in intervals.items():
        if interval is None:
            yield f"{name} has no interval: too many refits found no such value"
        elif 0 < interval.low * _WIDE < interval.high or interval.low <= 0 < interval.high:
            ends = f"{interval.low:.3g} to {interval.high:.3g}"
            yield f"{name} is uncertain: {interval.level:.0%} of refits lie in {ends}"


def rests_on_few(form: Form, runs: Runs, agreeing: int, starts: int, unknown: Collection[str]) -> Iterator[str]:
    """Fits that rest on little."""
    if len(runs) < 2 * len(form.free):
        yield f"{len(runs)} runs for {len(form.free)} constants: the fit follows their noise"
    if not unknown and agreeing < max(2, starts // 2):
        yield f"only {agreeing} of {starts} starts came to this optimum: others may lie as low"
