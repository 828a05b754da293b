"""Experts that are vectors, of which each token retrieves a few by two halves of a key (Doge).

Source: He 2024 (arXiv:2407.04153); transformers 5.23, models/doge/modeling_doge.py, DogeCDMoE.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.channels import Activation
from calc.spec.fields import Dim, Node


class RetrievedExperts(Node):
    """A gated MLP for all tokens, and beside it the `top_k` best of `n_experts` pairs of vectors for each: what x gives
    with the one, through the activation, weighs the other.

    The router scores two kinds of halves of keys, n_keys of each; an expert's score is the sum of its halves'. As
    transformers runs it, scores of all tokens lie one behind another and are read as two halves, so that those of a
    token's halves are of other tokens, later ones among them; decoding one sequence does not mix them.
    """

    kind: Literal["retrieved"] = "retrieved"
    n_experts: Dim
    n_keys: Dim
    top_k: Dim
    d_shared: Dim
    bias: bool = False
    activation: Activation = "silu"
    renormalize: bool = False

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.n_keys**2 > self.n_experts:
            raise Refused("n_keys", f"at most the root of n_experts = {self.n_experts}", self.n_keys)
        if self.top_k > self.n_keys**2:
            raise Refused("top_k", f"at most the {self.n_keys**2} experts that have keys", self.top_k)
        return self
