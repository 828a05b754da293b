"""Equations to fit for which no law of `calc.laws` has constants: what they are, and where a search for them starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from calc.fitting.forms import Array
from calc.laws import Law

Start = Mapping[str, float]
"""The size of every constant, by name; its sign is that in the template's law."""


class Template(NamedTuple):
    """law: its constants say nothing but their signs. formula: the loss, as it is printed.

    starts: what the equation takes and the losses, each of shape (runs,) -> from where to search. shares: columns of
    parts of a whole, which may be 0 and come to 1 in every row. optimum: whether the compute-optimal run follows from
    its loss of N and D alone.
    """

    law: Law
    formula: str
    starts: Callable[[Mapping[str, Array], Array], Sequence[Start]]
    shares: tuple[str, ...] = ()
    optimum: bool = False
