"""Experts that are vectors, retrieved by product keys: the twin of `calc.blocks.retrieved`."""

from __future__ import annotations

from torch import Tensor, nn

from calc.spec import Mlp, RetrievedExperts
from reference_models.blocks.linear import ACTIVATIONS
from reference_models.blocks.mlp import FeedForward
from reference_models.step import Step
from reference_models.support import supported


class WithRetrieved(FeedForward):
    """A gated MLP for all tokens, and each token's own pairs of vectors beside it."""

    def __init__(self, spec: RetrievedExperts, d_model: int) -> None:
        supported(spec, "n_experts", "n_keys", "top_k", "d_shared", "bias", "activation", "renormalize")
        super().__init__(Mlp(d_ff=spec.d_shared, gated=True, bias=spec.bias, activation=spec.activation), d_model)
        self.experts = spec
        self.router = nn.Linear(d_model, 2 * spec.n_keys, bias=False)
        self.retrieved = nn.ModuleDict({name: nn.Embedding(spec.n_experts, d_model) for name in ("down", "up")})

    def forward(self, x: Tensor, step: Step, cache: None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        flat = x.flatten(0, 1)
        weights, chosen = self._choose(self.router(x))
        down, up = (self.retrieved[name](chosen) for name in ("down", "up"))
        inner = ACTIVATIONS[self.experts.activation]((down @ flat[..., None]).squeeze(-1)) * weights
        return super().forward(x, step) + (inner[:, None] @ up).squeeze(1).view_as(x)

    def _choose(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """scores [batch, seq, 2 * n_keys] -> weights and numbers of each token's experts, [tokens, top_k]."""
        spec = self.experts
        # Halves of all tokens' scores together, as transformers reads them, and not of each token's.
        best, places = scores.view(2, -1, spec.n_keys).topk(spec.n_keys, dim=-1)
        sums = (best[0][..., None] + best[1][:, None]).flatten(1)
        numbers = (places[0][..., None] * spec.n_keys + places[1][:, None]).flatten(1)
        found, at = sums.topk(spec.top_k, dim=-1)
        weights = found.softmax(-1)
        weights = weights / weights.sum(-1, keepdim=True) if spec.renormalize else weights
        return weights, numbers.gather(-1, at)
