"""`loss`: what a law predicts for a model and its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calc.errors import Refused
from calc.laws import DEFAULT, find
from calc.laws.uncertainty import Interval, interval
from calc.laws.variables import VARIABLES, quantity


@dataclass(frozen=True, slots=True)
class Prediction:
    """A loss in nats a token of the law's own data and tokenizer, for `inputs`; the rest as in `Optimum`."""

    law: str
    loss: float
    inputs: Mapping[str, float]
    convention: str
    in_range: bool
    warnings: tuple[str, ...]
    interval: Mapping[str, Interval]
    interval_source: str


def loss(law: str = DEFAULT, **inputs: float) -> Prediction:
    """The loss that `law` has for exactly these inputs: params, tokens, and where a law takes them unique_tokens,
    experts, bits_weights, bits_activations and bits_cache, compute_min or steps_min.

    Errors: Refused for an unknown law, inputs that it does not take together, and numbers that are not above 0.
    """
    entry = find(law)
    values = {name: _amount(name, value) for name, value in inputs.items()}
    equation = entry.equation("loss", set(values))
    ordered = [values[name] for name in equation.takes]
    outside = entry.outside(**values)
    found = equation.rule(entry.k, *ordered)
    band = interval(entry, lambda k: equation.rule(k, *ordered))
    return Prediction(
        law=entry.name,
        loss=found,
        inputs=values,
        convention=f"{equation.where}; N: {entry.params}; D: {entry.tokens}",
        in_range=not outside,
        warnings=outside + ((entry.second_hand,) if entry.second_hand else ()),
        interval={} if band is None else {"loss": band},
        interval_source=entry.uncertainty,
    )


def _amount(name: str, value: float) -> float:
    """Errors: Refused as `quantity`, and for less than one parameter or token."""
    field = f"--{name.replace('_', '-')}"
    number = quantity(field, name, value)
    if VARIABLES[name].unit in ("parameters", "tokens") and number < 1:
        raise Refused(field, f"1 or more {VARIABLES[name].unit}", value)
    return number
