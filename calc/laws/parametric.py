"""L = E + (A / N^alpha + B / D^beta)^power, and everything that follows from it in closed form."""

from __future__ import annotations

from typing import NamedTuple

from calc.errors import Refused
from calc.sizes import Size


class Parametric(NamedTuple):
    """The form that Chinchilla's approach 3 made common (Hoffmann et al. 2022, equation 2).

    Busbridge et al. 2025 raise the sum to a power, which moves the loss and not the optima. Fields may be floats,
    float64 arrays (one element a bootstrap draw) or symbols. N and D are floats or arrays: whole numbers of 64 bits
    wrap around when they are multiplied. Losses are nats a token.
    """

    E: Size
    A: Size
    B: Size
    alpha: Size
    beta: Size
    power: Size = 1

    def loss(self, params: Size, tokens: Size) -> Size:
        return self.E + (self.A / params**self.alpha + self.B / tokens**self.beta) ** self.power

    def tokens(self, params: Size, loss: Size) -> Size:
        """Tokens with which N parameters reach a loss. Errors: Refused where no number of tokens does."""
        of_size = self.A / params**self.alpha
        left = max(loss - self.E, 0) ** (1 / self.power) - of_size
        if left <= 0:
            raise Refused("loss", f"more than {self.E + of_size**self.power:.4g} for such a model", loss)
        return (self.B / left) ** (1 / self.beta)

    @property
    def G(self) -> Size:  # noqa: N802 (the paper's letter)
        """N over (C / 6)^a at the optimum (Hoffmann et al., equation 4)."""
        return (self.alpha * self.A / (self.beta * self.B)) ** (1 / (self.alpha + self.beta))

    @property
    def a(self) -> Size:
        """Exponent of compute in N; 1 - a is that in D."""
        return self.beta / (self.alpha + self.beta)

    @property
    def gamma(self) -> Size:
        """Exponent with which the loss above E falls along the frontier, but for the power."""
        return self.alpha * self.beta / (self.alpha + self.beta)

    @property
    def substitution(self) -> Size:
        """Elasticity of substitution between N and D at the optimum.

        d ln(D / N) over d ln of their marginal rate along a line of equal loss: there both terms have the same
        elasticity, and 2 / (2 + alpha + beta) is left.
        """
        return 2 / (2 + self.alpha + self.beta)

    def frontier_terms(self) -> tuple[Size, Size, Size, Size, Size, Size, Size]:
        """n, a, d, b, floor, k, g of `calc.laws.base.Frontier`, with C = 6 N D (Hoffmann et al., equation 4)."""
        g, a = self.G, self.a
        k = (self.A * g**-self.alpha + self.B * g**self.beta) * 6**self.gamma
        return g * 6**-a, a, 6 ** (a - 1) / g, 1 - a, self.E, k**self.power, self.gamma * self.power

    def deviation(self, factor: float) -> float:
        """Compute over the least for the same loss, where N is `factor` times the optimum's and D makes up for it.

        At the optimum the shares of the two terms are beta and alpha over their sum. Errors: Refused for a model so
        small that no number of tokens reaches the loss.
        """
        share = self.beta / (self.alpha + self.beta)
        left = 1 - share * factor**-self.alpha
        if left <= 0:
            least = share ** (1 / self.alpha)
            raise Refused("factor", f"more than {least:.3g} of the optimal size, below which no data is enough", factor)
        return factor * ((1 - share) / left) ** (1 / self.beta)
