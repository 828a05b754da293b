"""Reading one description three ways: with its own ints, with sympy symbols, or with arrays in place of its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc import checks
from calc.errors import Refused
from calc.sizes import Size, exact_div
from calc.spec import ModelSpec
from calc.spec.fields import map_sizes
from calc.spec.model import check_model


def sizes_of(spec: ModelSpec) -> dict[str, int]:
    """Every size of `spec` by symbol name.

    Groups of layers that agree on a size share its symbol; where they differ each has its own, with the group's name
    behind it (`d_ff_dense`). The number of layers is `n_layers`, or one count a group.
    """
    return {name: value for (_, name), value in _named(spec).values()}


def with_sizes(spec: ModelSpec, values: Mapping[str, Size]) -> ModelSpec:
    """A copy of `spec` with the named sizes replaced, so that they may be symbols or arrays; integer arrays become
    float64. Each is a size (`calc.checks.size`), but nothing checks that they fit together.

    A base name (`d_head`) that is no symbol itself sets the size in every group; `n_layers` scales the main stack's
    groups in proportion.
    Errors: Refused for a name that is no size of this model, and for a value that is no size.
    """
    named = _named(spec)
    known = dict.fromkeys(name for (_, name), _ in named.values())
    bases = {base for (base, _), _ in named.values()}
    own = {layers.name for layers in spec.layers}
    for name in values:
        if name not in known and name not in bases:
            raise Refused(name, f"a size of {spec.name}: {', '.join(known)}", "no such size")
    values = {name: checks.size(name, value) for name, value in values.items()}

    def change(base: str, group: str, value: Size) -> Size:
        name = named[base, group][0][1]
        if name in values:
            return values[name]
        if base not in values or base in known:
            return value
        if base == "n_layers":
            return exact_div(values[base] * value, spec.n_layers) if group in own else value
        return values[base]

    return map_sizes(spec, change)


def symbolic(spec: ModelSpec) -> tuple[ModelSpec, dict[Any, int]]:
    """`spec` with a sympy symbol for every size, and the value of each symbol.

    Symbols are positive and not integer: sympy's `solve` finds no real root for an integer symbol. Chunks of one token
    stay a number: they have no system to solve, which a symbol cannot say.
    """
    import sympy

    values = {name: value for (base, name), value in _named(spec).values() if (base, value) != ("chunk", 1)}
    symbols = {name: sympy.Symbol(name, positive=True) for name in values}
    return with_sizes(spec, symbols), {symbols[name]: value for name, value in values.items()}


def _named(spec: ModelSpec) -> dict[tuple[str, str], tuple[tuple[str, str], int]]:
    """(base name, group) -> ((base name, symbol name), value) of every size, in the order of the description."""
    found: dict[tuple[str, str], int] = {}

    def note(base: str, group: str, value: Size) -> Size:
        found[base, group] = value
        return value

    check_model(spec)
    map_sizes(spec, note)
    values: dict[str, set[int]] = {}
    for (base, _), value in found.items():
        values.setdefault(base, set()).add(value)
    own = {base for base, different in values.items() if len(different) > 1}
    if sum(len(stack.layers) for stack in spec.stacks) > 1:
        own.add("n_layers")

    def of_tower(group: str) -> bool:
        return any(group == tower.name or group.startswith(f"{tower.name}_") for tower in spec.towers)

    in_main: dict[str, set[int]] = {}
    for (base, group), value in found.items():
        if not of_tower(group):
            in_main.setdefault(base, set()).add(value)

    def name(base: str, group: str) -> str:
        # The main stack's sizes keep the plain name where all its layers agree, whatever those of a tower are.
        alike = group in ("", "layers") if base == "n_layers" else len(in_main.get(base, ())) == 1
        plain = base not in own or group == "" or (alike and not of_tower(group))
        return base if plain else f"{base}_{group}"

    return {(base, group): ((base, name(base, group)), value) for (base, group), value in found.items()}
