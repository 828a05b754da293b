"""Losses of N and D that are no sum of two powers, with their compute-optimal models found numerically."""

from __future__ import annotations

from dataclasses import dataclass

from calc.errors import Refused
from calc.laws.arithmetic import crossing, lowest
from calc.sizes import Size

_LEAST, _MOST = 1.0, 1e18
"""Parameters and tokens between which optima are looked for."""


@dataclass(frozen=True, slots=True)
class Surface:
    """L = E + A / N^alpha + A2 / N^alpha2 + B / D^beta, where training a token takes 6 share N FLOPs.

    Sizes are floats. What it has in common with `calc.laws.parametric.Parametric` goes by the same names.
    """

    E: float
    A: float
    alpha: float
    A2: float
    alpha2: float
    B: float
    beta: float
    share: float

    def loss(self, params: Size, tokens: Size) -> Size:
        return self._of_params(params) + self.B / tokens**self.beta

    def tokens(self, params: float, loss: float) -> float:
        """Tokens with which N parameters reach a loss. Errors: Refused where no number of tokens does."""
        left = loss - self._of_params(params)
        if left <= 0:
            raise Refused("loss", f"more than {self._of_params(params):.4g} for such a model", loss)
        return (self.B / left) ** (1 / self.beta)

    def _of_params(self, params: Size) -> Size:
        return self.E + self.A / params**self.alpha + self.A2 / params**self.alpha2


@dataclass(frozen=True, slots=True)
class SurfaceFrontier:
    """The compute-optimal models of a surface: what `calc.laws.base.Frontier` is, without its powers."""

    surface: Surface

    @property
    def floor(self) -> float:
        return self.surface.E

    @property
    def k(self) -> float:
        """Not None, as the law predicts a loss."""
        return self.surface.B

    def params(self, compute: float) -> float:
        each = 6 * self.surface.share
        return lowest(lambda n: self.surface.loss(n, compute / (each * n)), _LEAST, _MOST)

    def tokens(self, compute: float) -> float:
        return compute / (6 * self.surface.share * self.params(compute))

    def loss(self, compute: float) -> float:
        params = self.params(compute)
        return self.surface.loss(params, compute / (6 * self.surface.share * params))

    def compute(self, *, params: float | None = None, tokens: float | None = None, loss: float | None = None) -> float:
        """FLOPs at which the one that is given is optimal. Errors: Refused for a loss at or below the floor."""
        if params is not None:
            return 6 * self.surface.share * params * self._tokens_for(params)
        if tokens is not None:
            return 6 * self.surface.share * self._params_for(tokens) * tokens
        assert loss is not None
        if loss <= self.floor:
            raise Refused("loss", f"more than {self.floor:.4g} nats a token, which no compute gets below", loss)
        try:
            return crossing(lambda c: self.loss(c) - loss, 1e6, 1e36)
        except ArithmeticError:
            raise Refused("loss", "one that 1e6 to 1e36 FLOP reach", loss) from None

    def _tokens_for(self, params: float) -> float:
        """D for which N is optimal: there both have the same elasticity."""
        of = self.surface
        return (of.beta * of.B / self._slope(params)) ** (1 / of.beta)

    def _params_for(self, tokens: float) -> float:
        """N for which D is optimal."""
        of = self.surface
        same = of.beta * of.B / tokens**of.beta
        return crossing(lambda n: self._slope(n) - same, _LEAST / _MOST, _MOST**2)

    def _slope(self, params: float) -> float:
        """How fast the loss falls with ln N."""
        of = self.surface
        return of.alpha * of.A / params**of.alpha + of.alpha2 * of.A2 / params**of.alpha2
