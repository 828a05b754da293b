"""Options of what a whole run of training costs, and how the answer is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from calc.errors import Refused
from calc.output.tables import Table
from calc.reading.numbers import Number
from calc.spec import ModelSpec
from calc.time import Prediction
from calc.time.device.speed import Speed
from calc.time.economics import Economics, economics
from calc.units import HOUR, binary, duration, parse_amount

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Costs:
    """What was said of a whole run; as `calc.time.economics.economics`."""

    tokens: int
    price: float | None
    mtbf: float | None
    restart: float | None
    pue: float | None

    def answer(self, spec: ModelSpec, it: Prediction, speed: Speed) -> Economics:
        """The costs of the run whose step is predicted."""
        own = {name: getattr(self, name) for name in ("price", "mtbf", "restart", "pue")}
        return economics(spec, it, speed.device, tokens=self.tokens, **own)


class Price(click.ParamType):
    """Money for a GPU-hour: 2, or 2/h."""

    name = "N/h"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"[$€]?(\d{1,6}(?:\.\d{1,6})?)(?:/h)?", value.strip())
        if match is None:
            raise Refused(param.opts[0] if param else "price", "money for a GPU-hour, such as 2/h", value)
        return float(match[1])


class Corpus(click.ParamType):
    """Tokens of a whole run: 15T."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = value if isinstance(value, int) else parse_amount(value, "tokens", "--tokens")
        if found < 1:
            raise Refused("--tokens", "at least 1", value)
        return int(found)


def of_costs(function: F) -> F:
    """The options of a whole run's costs; the command gets them as `costs`, None without --tokens."""

    @wraps(function)
    def with_costs(*args: Any, **words: Any) -> Any:
        given = {name: words.pop(name) for name in ("tokens", "price", "mtbf", "restart", "pue")}
        if given["tokens"] is None and any(value is not None for value in given.values()):
            raise Refused("--tokens", "how many the run is over, beside what it costs", "none")
        costs = None if given["tokens"] is None else Costs(**given)
        return function(*args, costs=costs, **words)

    above = Number(above=0)
    for option in (
        click.option("--pue", metavar="RATIO", type=Number(1), help="Of the data centre's power.  [default: 1.1]"),
        click.option(
            "--restart",
            metavar="SECONDS",
            type=above,
            help="Seconds until training goes on after a failure.  [default: 600]",
        ),
        click.option(
            "--mtbf", metavar="HOURS", type=above, help="Hours of one GPU between failures.  [default: 50,700]"
        ),
        click.option("--price", type=Price(), help="Of a GPU-hour: 2/h."),
        click.option("--tokens", type=Corpus(), help="Of the whole run: days, GPU-hours, money, energy."),
    ):
        with_costs = option(with_costs)
    return with_costs  # pyright: ignore[reportReturnType] (wraps keeps the signature)


def economics_table(it: Economics) -> Table:
    """The costs of a whole run, a row each."""

    def between(pair: tuple[float, float] | None) -> str:
        return "" if pair is None else f"{pair[0]:,.0f} to {pair[1]:,.0f}"

    rows = [
        ("steps", f"{it.steps:,}", ""),
        ("days", f"{it.days:,.1f}", f"{it.days_between[0]:,.1f} to {it.days_between[1]:,.1f}"),
        ("GPU-hours", f"{it.gpu_hours:,.0f}", between(it.gpu_hours_between)),
    ]
    if it.money is not None:
        rows.append(("money", f"{it.money:,.0f}", between(it.money_between)))
    if it.energy is not None:
        rows.append(("energy, MWh", f"{it.energy / 1000:,.1f}", ""))
    often = duration(it.interval) if it.interval < 2 * HOUR else f"{it.interval / HOUR:,.1f} h"
    rows += [
        ("goodput", f"{it.goodput:.1%}", f"{it.failures:,.1f} failures expected"),
        ("checkpoint", binary(it.checkpoint), f"each {often} (Young, Daly)"),
    ]
    return Table(("the whole run", "", "between, or how"), rows)
