"""One number and what it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calc import conventions
from calc.ask import registry
from calc.ask.parts import WHOLE, of_part
from calc.ask.quantity import Quantity, sum_of
from calc.conventions import Convention
from calc.conventions.executed import absorbs
from calc.sizes import Size
from calc.spec import Mla, ModelSpec
from calc.spec.model import check_model
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
    check_model(spec)
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
        value=sum_of(terms),
        unit=entry.unit,
        terms=terms,
        convention=owner.name if owner else None,
        source=_source(entry, owner, spec, run),
        caveats=caveats,
        run=run,
    )


def _source(entry: Quantity, owner: Convention | None, spec: ModelSpec, run: Run) -> str:
    """Whose formula was used: of latents that are absorbed, that is not the whole of a convention's."""
    if owner is None:
        return entry.source if entry.source_of is None else entry.source_of(spec)
    latent = any(isinstance(node, Mla) for group in spec.layers for node in group.mixers)
    if entry.phase == "decode" and latent and absorbs(run):
        return f"{owner.source}; latents absorbed (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1.2)"
    return owner.source


def _owner(entry: Quantity, run: Run) -> Convention | None:
    """The convention whose formula the quantity is; None where it is the tree's own count."""
    convention = conventions.find(run.convention)
    if "convention" not in entry.uses or (entry.name == "params" and convention.params is None):
        return None
    return convention
