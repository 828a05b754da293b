"""One number and what it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calc import conventions
from calc.quantities import registry
from calc.query import Query
from calc.sizes import Size
from calc.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its unit, the terms that sum to it, and where it comes from."""

    quantity: str
    model: str
    value: Size
    unit: str
    terms: Mapping[str, Size]
    convention: str | None
    source: str


def estimate(spec: ModelSpec, quantity: str, **options: Any) -> Estimate:
    """The value of a quantity of `calc quantities` for one model, exact where the sizes are ints.

    options: fields of `calc.Query` (batch, seq, context, convention, checkpointing, dtype, window_reading).
    Errors: Refused for an unknown quantity, or what its convention does not define. TypeError for an unknown option.
    """
    entry = registry.find(quantity)
    query = Query(**options)
    terms = entry.compute(spec, query)
    convention = conventions.find(query.convention) if "convention" in entry.uses else None
    return Estimate(
        quantity=quantity,
        model=spec.name,
        value=registry.total(terms),
        unit=entry.unit,
        terms=terms,
        convention=convention.name if convention else None,
        source=convention.source if convention and convention.params else entry.source,
    )
