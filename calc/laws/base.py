"""What a scaling law is: equations with their constants, what N, D and C mean in them, and how far they are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

from calc.errors import Refused
from calc.laws.parametric import Parametric
from calc.laws.surface import Surface, SurfaceFrontier
from calc.laws.variables import VARIABLES, in_words, quantity
from calc.sizes import Size

PF_DAY = 8.64e19
"""FLOPs of a petaflop/s held for a day: 1e15 * 24 * 3600."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One number of a law. note: where it is from or how it was rounded, where that is not the law's own source."""

    name: str
    value: float
    unit: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Equation:
    """gives = rule(k, *takes).

    gives, takes: names of VARIABLES. where: the equation or table of the source.
    rule: arithmetic on floats, arrays and symbols alike; k has the law's constants as attributes.
    """

    gives: str
    takes: tuple[str, ...]
    where: str
    rule: Callable[..., Size]


class Frontier(NamedTuple):
    """The compute-optimal models of a law, as powers of the FLOPs C of training.

    N = n * C^a and D = d * C^b; loss = floor + k * C^-g, where the law predicts one (else k is None).
    """

    n: Size
    a: Size
    d: Size
    b: Size
    floor: Size = 0.0
    k: Size = None
    g: Size = None

    def params(self, compute: Size) -> Size:
        return self.n * compute**self.a

    def tokens(self, compute: Size) -> Size:
        return self.d * compute**self.b

    def loss(self, compute: Size) -> Size:
        return None if self.k is None else self.floor + self.k * compute**-self.g

    def compute(self, *, params: Size = None, tokens: Size = None, loss: Size = None) -> Size:
        """FLOPs at which the one that is given is optimal.

        Errors: Refused for a loss where the law predicts none, and for one at or below its floor.
        """
        if params is not None:
            return (params / self.n) ** (1 / self.a)
        if tokens is not None:
            return (tokens / self.d) ** (1 / self.b)
        if self.k is None:
            raise Refused("loss", "a law that predicts a loss", loss)
        if loss <= self.floor:
            raise Refused("loss", f"more than {self.floor:.4g} nats a token, which no compute gets below", loss)
        return (self.k / (loss - self.floor)) ** (1 / self.g)


class Exponent(NamedTuple):
    """What bootstraps leave open of the exponent of N = n C^a: the middle `share` of them, low to high.

    centre: the middle of the budgets in FLOP, where a line through them is known best, and about which it turns.
    """

    low: float
    high: float
    share: float
    centre: float


Counts = Literal["all", "non-embedding", "without input embedding", "active", "active non-embedding"]


@dataclass(frozen=True, slots=True)
class Law:
    """One published law, or one named set of constants of it.

    name: what --law takes. title: one line. params: what N counts in it, in words; `counts` the same for the computer.
    compute: what C is. tokens: whose tokens D and the loss are counted in. source: paper, table and equation, year.
    confirmed: how well the constants are known, in one sentence. errata: known mistakes, one sentence each.
    second_hand: what every answer says of constants that were not read in the source itself.
    inexact: what a model's N lacks when it is counted by `counts`, where that is not quite `params`.
    valid: variable -> (least, most) of what it was fitted on; tokens_per_param bounds D / N.
    variant_of: name of the law whose other constants these are; `--law all` passes variants over.
    parametric: constants -> L = E + A / N^alpha + B / D^beta, where the law is one.
    frontier: constants -> its compute-optimal models, where it says which they are.
    routing, routed: of a law of experts, what else the loss depends on, and constants and these -> its loss of N and D;
        `at` gives the law of one routing.
    deviation: constants, factor -> compute over the least for the same loss, where N is `factor` times the optimum's.
    superseded: names of the laws that correct this one; it is left out where laws are summed up.
    draws: file of calc/data/laws with bootstrapped constants. exponent: for a law of constants n, a, d and b without
        such a file, what is known of a. Where there is neither, no trustworthy uncertainty is known, and `uncertainty`
        says why.
    """

    name: str
    title: str
    equations: tuple[Equation, ...]
    constants: tuple[Constant, ...]
    params: str
    counts: Counts
    compute: str
    tokens: str
    source: str
    confirmed: str
    valid: Mapping[str, tuple[float, float]]
    errata: tuple[str, ...] = ()
    second_hand: str = ""
    inexact: str = ""
    variant_of: str | None = None
    parametric: Callable[[Any], Parametric | Surface] | None = None
    frontier: Callable[[Any], Frontier | SurfaceFrontier] | None = None
    routing: tuple[str, ...] = ()
    routed: Callable[..., Parametric | Surface] | None = None
    deviation: Callable[[Any, float], float] | None = None
    superseded: tuple[str, ...] = ()
    draws: str | None = None
    exponent: Exponent | None = None
    uncertainty: str = "the source prints none that could be used here"

    @property
    def k(self) -> SimpleNamespace:
        """The constants as attributes."""
        return SimpleNamespace(**{constant.name: constant.value for constant in self.constants})

    def at(self, **routing: float | None) -> Law:
        """The law of one routing: of so many experts, of such a granularity, of such a sparsity; itself where it has
        none and nothing is given.

        Errors: Refused for what the law does not know, and for less or more than there can be.
        """
        given = {name: value for name, value in routing.items() if value is not None}
        strange = [name for name in given if name not in self.routing]
        if strange:
            known = f"nothing but --{' and --'.join(self.routing)}" if self.routing else "a law of experts beside it"
            raise Refused(f"--{strange[0]}", known, self.name)
        if self.routed is None or not given:
            return self
        for name, value in given.items():
            quantity(f"--{name}", name, value)
        routed = self.routed

        def surface(k: Any) -> Parametric | Surface:
            return routed(k, *(given[name] for name in self.routing))

        def frontier(k: Any) -> Frontier | SurfaceFrontier:
            found = surface(k)
            return SurfaceFrontier(found) if isinstance(found, Surface) else Frontier(*found.frontier_terms())

        return replace(self, parametric=surface, frontier=frontier)

    def equation(self, gives: str, takes: frozenset[str] | set[str]) -> Equation:
        """The equation from exactly `takes` to `gives`. Errors: Refused, with what the law has."""
        for equation in self.equations:
            if equation.gives == gives and set(equation.takes) == takes:
                return equation
        known = [" and ".join(e.takes) for e in self.equations if e.gives == gives]
        wanted = f"{gives} from {', or '.join(known)}" if known else f"a law that gives {gives}"
        raise Refused(f"--law {self.name}", wanted, f"{gives} from {' and '.join(sorted(takes)) or 'nothing'}")

    def evaluate(self, gives: str, **inputs: Size) -> Size:
        """The number of `gives` that the law has for `inputs`: floats, or arrays together.

        Errors: Refused for inputs that no equation of the law takes, and for numbers that are not above 0.
        """
        equation = self.equation(gives, set(inputs))
        return equation.rule(self.k, *(quantity(name, name, inputs[name]) for name in equation.takes))

    def expression(self, equation: Equation) -> Any:
        """The equation's right-hand side as a sympy expression, constants as symbols of their names."""
        import sympy

        names = {constant.name: sympy.Symbol(constant.name, positive=True) for constant in self.constants}
        inputs = (sympy.Symbol(VARIABLES[name].letter, positive=True) for name in equation.takes)
        return sympy.sympify(equation.rule(SimpleNamespace(**names), *inputs))

    def outside(self, **values: float | None) -> tuple[str, ...]:
        """How far values lie outside of what the law was fitted on: one sentence, or none where all lie inside."""
        given = {name: value for name, value in values.items() if value is not None}
        if {"params", "tokens"} <= set(given):
            given["tokens_per_param"] = given["tokens"] / given["params"]
        off = {name: _beyond(value, *self.valid[name]) for name, value in given.items() if name in self.valid}
        far = sorted((name for name in off if off[name] != 1), key=lambda name: -max(off[name], 1 / off[name]))
        if not far:
            return ()
        first, *others = far
        notes = [f"{_times(off[first])} {_side(off[first])} the {in_words(first)} that {self.name} was fitted on"]
        for name in others:
            side = "" if _side(off[name]) == _side(off[first]) else f" {_side(off[name])}"
            notes.append(f"{_times(off[name])}{side} the {in_words(name)}")
        return (", ".join(notes),)


def _side(factor: float) -> str:
    return "beyond" if factor > 1 else "below"


def _beyond(value: float, low: float, high: float) -> float:
    """Over the most, or over the least where it is below that; 1 in between, rounding allowed for."""
    if low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
        return 1.0
    return value / (high if value > high else low)


def _times(factor: float) -> str:
    far = max(factor, 1 / factor)
    if far < 99.5:
        return f"{far:.3g} times" if far < 1.095 else f"{far:.2g} times"
    return f"{far:,.0f} times" if far < 1e6 else f"{far:.1e} times"
