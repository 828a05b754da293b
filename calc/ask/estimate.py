"""One number and what it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calc import conventions
from calc.ask import registry
from calc.ask.parts import WHOLE, of_part
from calc.conventions import Convention
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.run import Run, exact_run


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its unit, the terms that sum to it, and where it comes from.

    convention: whose formula gave it; None for what no convention has a say in. source: of that formula, or of the
    quantity itself. run: what it is the answer to. caveats: what of this model the formula does not see, one sentence
    each.
    """

    quantity: str
    model: str
    value: Size
    unit: str
    terms: Mapping[str, Size]
    convention: str | None
    source: str
    run: Run
    caveats: tuple[str, ...] = ()


def estimate(spec: ModelSpec, quantity: str, run: Run | None = None, *, part: str = WHOLE, **words: Any) -> Estimate:
    """The value of a quantity of `calc quantities` for one model, exact where the sizes are ints.

    part: the path of a part (`calc.ask.parts`), to count it alone. run, words: what runs, as a Run or by its
    fields, but for the phase, which the quantity's name gives. Integer arrays become float64.
    Errors: Refused for an unknown quantity, convention or word, for a size that is no whole number, and for what the
    convention does not define. TypeError for an unknown field.
    """
    entry = of_part(registry.find(quantity), part)
    run = exact_run(run, **(words if entry.phase is None else words | {"phase": entry.phase}))
    owner = _owner(entry, run)
    terms = entry.compute(spec, run)
    caveats: tuple[str, ...] = ()
    if owner is not None:
        caveats = owner.params_caveats(spec) if quantity == "params" else conventions.caveats(spec, run)
    return Estimate(
        quantity=quantity,
        model=spec.name,
        value=registry.total(terms),
        unit=entry.unit,
        terms=terms,
        convention=owner.name if owner else None,
        source=owner.source if owner else entry.source,
        caveats=caveats,
        run=run,
    )


def _owner(entry: registry.Quantity, run: Run) -> Convention | None:
    """The convention whose formula the quantity is; None where it is the tree's own count."""
    convention = conventions.find(run.convention)
    if "convention" not in entry.uses or (entry.name == "params" and convention.params is None):
        return None
    return convention
