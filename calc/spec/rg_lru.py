"""Griffin's recurrent block: a fading sum of inputs, how fast it fades told by the token (RG-LRU)."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.channels import Activation
from calc.spec.fields import Dim, Node


class RgLru(Node):
    """A real-gated linear recurrent unit behind a short convolution, and a gate around both (De et al. 2024,
    arXiv:2402.19427, sections 2.3 and 2.4).

    d_inner: channels of the recurrence. n_blocks: shares of them, each with a matrix of its own for either gate.
    d_conv: taps of the causal convolution before the recurrence. activation: of the gate around it.
    """

    symbols: ClassVar[dict[str, str]] = {"d_inner": "d_lru", "n_blocks": "n_lru_blocks"}
    kind: Literal["rg_lru"] = "rg_lru"
    d_inner: Dim
    n_blocks: Dim
    d_conv: Dim = 4
    activation: Activation = "gelu_tanh"

    @model_validator(mode="after")
    def _blocks(self) -> Self:
        if self.d_inner % self.n_blocks:
            raise Refused("n_blocks", f"a divisor of d_inner = {self.d_inner}", self.n_blocks)
        return self
