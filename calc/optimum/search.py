"""The one optimiser: the best size for a budget, with limited data, with use to pay for, with exact FLOPs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calc.errors import Refused
from calc.laws.arithmetic import crossing, lowest
from calc.laws.base import Frontier, Law
from calc.laws.muennighoff import MUENNIGHOFF, amount, worth
from calc.laws.parametric import Parametric
from calc.laws.surface import Surface, SurfaceFrontier
from calc.optimum.costs import SIX_N, Costs

_NEVER = 1e300
"""Divided by x, the cost of what cannot be: it falls towards larger models, where a way may be found."""
_STEPS = 30
_CLOSE = 1e-7
"""Of a budget: a valley's lowest point is not known better (`calc.laws.arithmetic.lowest`)."""


def lacks_optimum(law: Law) -> Refused:
    """The refusal of a law without optima: because it wants to be told of experts, or has none."""
    if law.routing:
        return Refused(f"--{law.routing[0]}", f"a number of --law {law.name} beside it", "none")
    return Refused("--law", "a law that says which model is optimal", law.name)


@dataclass(frozen=True, slots=True)
class Problem:
    """A law with what goes beyond it.

    unique_tokens: more than these repeat them; repeated tokens and surplus parameters are then worth what Muennighoff
    et al. found, relative to this law's own loss. routing: of the law's experts, for whether they lie in its range.
    constants: other ones in place of the law's own, such as those of a bootstrap's draw.
    """

    law: Law
    costs: Costs = SIX_N
    unique_tokens: float | None = None
    routing: Mapping[str, float] = field(default_factory=dict)
    constants: Any = None

    @property
    def k(self) -> Any:
        return self.law.k if self.constants is None else self.constants

    @property
    def frontier(self) -> Frontier | SurfaceFrontier:
        if self.law.frontier is None:
            raise lacks_optimum(self.law)
        return self.law.frontier(self.k)

    @property
    def form(self) -> Parametric | Surface | None:
        return None if self.law.parametric is None else self.law.parametric(self.k)

    @property
    def plain(self) -> bool:
        """Whether the law's closed form answers."""
        return self.costs.exact is None and self.unique_tokens is None

    def wanted(self, why: str) -> Parametric | Surface:
        """The law's L(N, D). Errors: Refused where it has none that can be turned around."""
        if self.form is None:
            raise Refused("--law", f"one of the form E + A / N^alpha + B / D^beta for {why}", self.law.name)
        return self.form

    def loss(self, n: float, d: float) -> float:
        """Loss of N on D, repeated tokens and all."""
        form = self.wanted("a loss")
        if self.unique_tokens is None:
            return form.loss(n, d)
        surplus = self._worth(n, min(self.unique_tokens, d))
        return form.loss(surplus, worth(d, self.unique_tokens, MUENNIGHOFF.k.R_D))

    def _worth(self, n: float, fresh: float) -> float:
        """What N parameters are worth with so many fresh tokens."""
        return worth(n, self.frontier.params(self.frontier.compute(tokens=fresh)), MUENNIGHOFF.k.R_N)

    def best(self, compute: float) -> tuple[float, float]:
        """x and tokens of the lowest loss for so many FLOPs of training.

        A law without a loss gives the point of its frontier whose exact FLOPs these are.
        """
        if self.plain:
            return self.frontier.params(compute), self.frontier.tokens(compute)
        costs = self.costs
        if self.form is None:
            if self.unique_tokens is not None:
                self.wanted("--unique-tokens or --corpus")

            def left(x: float) -> float:
                return compute - costs.train(x) * self.frontier.tokens(self.frontier.compute(params=costs.size(x)))

            if not left(costs.low) >= 0 >= left(costs.high):
                raise self._beyond()
            x = crossing(left, costs.low, costs.high)
        else:
            x = self._within(lambda x: self.loss(costs.size(x), compute / costs.train(x)))
        return x, compute / costs.train(x)

    def tokens(self, n: float, loss: float) -> float | None:
        """Tokens with which N reaches a loss; None where none do."""
        form = self.wanted("--inference-tokens")
        if self.unique_tokens is None:
            try:
                return form.tokens(n, loss)
            except Refused:
                return None
        fresh = self.unique_tokens
        if self.loss(n, fresh) < loss:
            return crossing(lambda d: self.loss(n, d) - loss, 1.0, fresh)
        # Once tokens repeat, what the model's size is worth stands, and tokens follow from what they must be worth.
        try:
            return amount(form.tokens(self._worth(n, fresh), loss), fresh, MUENNIGHOFF.k.R_D)
        except Refused:
            return None

    def cheapest(self, loss: float, used: float) -> tuple[float, float]:
        """x and tokens that reach a loss with the fewest FLOPs of training and of `used` tokens of use.

        Sardana et al. 2023, equation 3.
        """
        costs = self.costs

        def cost(x: float) -> float:
            tokens = self.tokens(costs.size(x), loss)
            return _NEVER / x if tokens is None else costs.train(x) * tokens + costs.use(x) * used

        x = self._within(cost)
        return x, self.tokens(costs.size(x), loss) or 0.0

    def before_use(self, compute: float, used: float) -> float:
        """FLOPs without use of the loss that training for `compute` reaches where `used` tokens of use are paid for.

        A smaller model on more tokens takes more training for the same loss, so these are fewer than `compute`.
        Errors: Refused where no loss takes so many.
        """
        costs = self.costs

        def over(plain: float) -> float:
            x, tokens = self.best(plain)
            best, needed = self.cheapest(self.loss(costs.size(x), tokens), used)
            return math.log(costs.train(best) * needed / compute)

        a, fa = math.log(compute), over(compute)
        b = a - fa
        for _ in range(_STEPS):
            fb = over(math.exp(b))
            if abs(fb) < _CLOSE or fa == fb:
                break
            a, b, fa = b, b - fb * (b - a) / (fb - fa), fb
        if not abs(fb) < _CLOSE:
            raise self._beyond()
        return math.exp(b)

    def _within(self, f: Callable[[float], float]) -> float:
        """Where `f` is lowest. Errors: Refused where that is an end of what is looked at."""
        low, high = self.costs.low, self.costs.high
        x = lowest(f, low, high)
        if not low * 1.001 < x < high / 1.001:
            raise self._beyond()
        return x

    def _beyond(self) -> Refused:
        low, high = (self.costs.size(x) for x in (self.costs.low, self.costs.high))
        return Refused("optimal", f"an optimum of {low:.3g} to {high:.3g} parameters, where it is looked for", "none")
