"""One number and what it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

from calc import conventions
from calc.ask import registry
from calc.ask.parts import WHOLE, of_part
from calc.conventions import Convention
from calc.query import Query, QueryOptions, ask
from calc.sizes import Size
from calc.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its unit, the terms that sum to it, and where it comes from.

    convention: whose formula gave it; None for what no convention has a say in. source: of that formula, or of the
    quantity itself. caveats: what of this model the formula does not see, one sentence each.
    """

    quantity: str
    model: str
    value: Size
    unit: str
    terms: Mapping[str, Size]
    convention: str | None
    source: str
    caveats: tuple[str, ...] = ()


def estimate(spec: ModelSpec, quantity: str, *, part: str = WHOLE, **options: Unpack[QueryOptions]) -> Estimate:
    """The value of a quantity of `calc quantities` for one model, exact where the sizes are ints.

    part: the path of a part (`calc.ask.parts`), to count it alone. options: fields of `calc.Query` but for the phase,
    which the quantity's name gives. Integer arrays become float64.
    Errors: Refused for an unknown quantity, convention or word, for a size that is no whole number, and for what the
    convention does not define. TypeError for an unknown option.
    """
    entry = of_part(registry.find(quantity), part)
    query = ask(**options)
    owner = _owner(entry, query)
    terms = entry.compute(spec, query)
    caveats: tuple[str, ...] = ()
    if owner is not None:
        caveats = owner.params_caveats(spec) if quantity == "params" else owner.caveats(spec)
    return Estimate(
        quantity=quantity,
        model=spec.name,
        value=registry.total(terms),
        unit=entry.unit,
        terms=terms,
        convention=owner.name if owner else None,
        source=owner.source if owner else entry.source,
        caveats=caveats,
    )


def _owner(entry: registry.Quantity, query: Query) -> Convention | None:
    """The convention whose formula the quantity is; None where it is the tree's own count."""
    convention = conventions.find(query.convention)
    if "convention" not in entry.uses or (entry.name == "params" and convention.params is None):
        return None
    return convention
