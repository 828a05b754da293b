"""Numbers with units on the command line: parameters, tokens, FLOPs; and shares."""

from __future__ import annotations

from typing import Any

import click

from calc.errors import Refused
from calc.units import parse_amount, parse_share


class Amount(click.ParamType):
    """A number of `unit` above 0, as `calc.units.parse_amount` reads it: 7B, 1.4T, 5.76e23, "100 PF-days"."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.name = {"FLOP": "FLOP", "parameters": "N", "tokens": "D"}[unit]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        field = param.opts[0] if param else "value"
        amount = float(parse_amount(value, self.unit, field))
        if amount <= 0:
            raise Refused(field, f"a number of {self.unit} above 0", value)
        return amount


class Share(click.ParamType):
    """A share above 0 and up to 1: 0.4, or 40%."""

    name = "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        field = param.opts[0] if param else "value"
        return float(parse_share(value, field))
