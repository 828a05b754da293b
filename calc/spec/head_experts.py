"""Experts of attention: heads that a router chooses."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node


class HeadExperts(Node):
    """Queries and outputs of experts: a router sends each token to `top_k` of `n_experts`, each of which has matrices
    for as many query heads as there are key-value heads (JetMoE: Shen et al. 2024, arXiv:2404.07413, section 2.3)."""

    symbols: ClassVar[dict[str, str]] = {"n_experts": "n_head_experts", "top_k": "head_top_k"}
    n_experts: Dim
    top_k: Dim

    @model_validator(mode="after")
    def _routing(self) -> Self:
        if self.top_k > self.n_experts:
            raise Refused("top_k", f"at most n_experts = {self.n_experts}", self.top_k)
        return self
