"""`laws`: the published scaling laws, and all that is known of one."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import completing, options
from calc.laws import ALIASES, LAWS, find
from calc.laws.base import Law
from calc.laws.parametric import Parametric
from calc.laws.variables import VARIABLES
from calc.output.tables import Table, emit, sentences


@click.command(short_help="Published scaling laws: equations, constants, range, errata.")
@click.argument("name", required=False, shell_complete=completing.laws)
@options.output
def laws(name: str | None, fmt: str) -> None:
    """List the scaling laws, or show the equations and constants of the law NAME with what N, C and D mean in it.

    \b
    Examples:
      python -m calc laws
      python -m calc laws besiroglu
    """
    if name is None:
        rows = [
            (
                law.name,
                law.title,
                ", ".join(_gives(law)).replace("_", " "),
                law.counts,
                law.variant_of or "",
            )
            for law in LAWS
        ]
        columns = ("law", "title", "gives", "N counts", "variant of")
        emit([_summary(law) for law in LAWS], [Table(columns, rows)], fmt)
        return
    law = find(name)
    emit([_record(law)], [_about(law), _equations(law), _constants(law)], fmt)


def _about(law: Law) -> Table:
    ranges = [f"{_letter(name)} {low:.3g} to {high:.3g}" for name, (low, high) in law.valid.items()]
    rows = [
        ("title", law.title),
        ("N", law.params),
        ("C", law.compute),
        ("D, L", law.tokens),
        ("fitted on", ", ".join(ranges)),
        *(("substitution", f"of N for D, at the optimum: elasticity {each:.3g}") for each in _substitution(law)),
        ("source", law.source),
        ("confirmed", law.confirmed),
        *(("erratum", erratum) for erratum in law.errata),
        ("uncertainty", law.uncertainty),
    ]
    return sentences(rows)._replace(title=law.name)


def _substitution(law: Law) -> list[float]:
    """The elasticity of a law with one term of N and one of D; nothing of any other."""
    form = None if law.parametric is None else law.parametric(law.k)
    return [float(form.substitution)] if isinstance(form, Parametric) else []


def _equations(law: Law) -> Table:
    rows = [
        (_letter(equation.gives), str(law.expression(equation)), VARIABLES[equation.gives].unit, equation.where)
        for equation in law.equations
    ]
    return Table(("gives", "equation", "unit", "where"), rows)


def _constants(law: Law) -> Table:
    rows = [(constant.name, f"{constant.value:.8g}", constant.unit, constant.note) for constant in law.constants]
    return Table(("constant", "value", "unit", "note"), rows)


def _gives(law: Law) -> list[str]:
    return list(dict.fromkeys(equation.gives for equation in law.equations))


def _letter(name: str) -> str:
    return VARIABLES[name].letter


def _summary(law: Law) -> dict[str, Any]:
    return {
        "law": law.name,
        "title": law.title,
        "aliases": [alias for alias, name in ALIASES.items() if name == law.name],
        "variant_of": law.variant_of,
        "gives": _gives(law),
        "counts": law.counts,
        "source": law.source,
        "confirmed": law.confirmed,
    }


def _record(law: Law) -> dict[str, Any]:
    return _summary(law) | {
        "params": law.params,
        "compute": law.compute,
        "tokens": law.tokens,
        "fitted_on": {name: list(bounds) for name, bounds in law.valid.items()},
        "substitution": next(iter(_substitution(law)), None),
        "errata": list(law.errata),
        "uncertainty": law.uncertainty,
        "equations": [
            {
                "gives": equation.gives,
                "takes": list(equation.takes),
                "formula": str(law.expression(equation)),
                "where": equation.where,
            }
            for equation in law.equations
        ],
        "constants": {
            constant.name: {"value": constant.value, "unit": constant.unit, "note": constant.note}
            for constant in law.constants
        },
    }
