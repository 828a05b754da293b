"""Numbers on a command line, here and in `harness`: finite, within bounds."""

from __future__ import annotations

import math
from typing import Any

import click

from calc.errors import Refused


class Number(click.FloatRange):
    """A finite number from `least`, or `above` something, to `most`; `endless`: or inf. click's own types let nan
    through every bound."""

    name = "number"

    def __init__(
        self,
        least: float | None = None,
        most: float | None = None,
        *,
        above: float | None = None,
        endless: bool = False,
    ) -> None:
        super().__init__(least if above is None else above, most, min_open=above is not None)
        self.endless = endless

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        least, most = self.min, self.max
        under = least is not None and (number <= least if self.min_open else number < least)
        over = most is not None and number > most
        if under or over or not (math.isfinite(number) or (self.endless and number == math.inf)):
            raise Refused(param.opts[0] if param else "value", self._expected(), value)
        return number

    def _expected(self) -> str:
        least, most = (None if bound is None else _written(bound) for bound in (self.min, self.max))
        bounds = ""
        if least is not None:
            bounds = f" above {least}" if self.min_open else f" from {least}{' on' * (most is None)}"
        if most is not None:
            bounds += f"{' and up' * self.min_open} to {most}"
        return f"a finite number{bounds}{', or inf' * self.endless}"


def _written(bound: float) -> str:
    return f"{bound:,.0f}" if bound == int(bound) else f"{bound:g}"
