"""DeepSeek-V3.2's indexer, and GLM-5.3's, which chooses whole pools of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import Indexer, Mla
from reference_models.blocks.attend import split
from reference_models.blocks.attention_inputs import HeadTemperature
from reference_models.blocks.linear import NormLayer, wide
from reference_models.blocks.positions import rotate
from reference_models.step import Step
from reference_models.support import supported


class TokenIndexer(nn.Module):
    """Which `top_k` tokens each new one attends to, by small heads of its own (DeepSeek-V3.2, arXiv:2512.02556).

    In pools (as in transformers 5.23, models/glm5_next/modeling_glm5_next.py, Glm5NextTextIndexer) it chooses those
    whose tokens are all there, and adds what a token sees behind its last whole one.
    A choice has no gradient: the indexer is trained by a loss of its own, which is not part of this model.
    """

    def __init__(self, spec: Indexer, attention: Mla, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "norm", "interleaved", "last", "q_norm", "head_temperature")
        self.spec = spec
        self.top_k, self.pool = attention.top_k or 0, attention.pool
        d_read = d_model if attention.q_rank is None or spec.q_norm is not None else attention.q_rank
        if spec.q_norm is not None:
            self.q_norm = NormLayer(spec.q_norm, (d_model,))
        if spec.head_temperature:
            self.temperature = HeadTemperature(spec.n_heads)
        self.q_b_proj = nn.Linear(d_read, spec.n_heads * spec.d_head, bias=False)
        self.k_proj = nn.Linear(d_model, spec.d_head, bias=False)
        self.k_norm = NormLayer(spec.norm, (spec.d_head,))
        self.weights_proj = nn.Linear(d_model, spec.n_heads, bias=False)
        if self.pool is not None:
            self.pool_gate = nn.Linear(d_model, spec.d_head, bias=False)
            self.pool_bias = nn.Parameter(torch.zeros(self.pool, spec.d_head))

    @torch.no_grad()
    def cached(self, x: Tensor, step: Step, *half: Tensor) -> Tensor:
        """x [batch, seq, d_model] -> keys [batch, seq, d_head], the first or last values turned by their positions; in
        pools what weighs each value of them stands behind, and 1, or 0 where the token is padding."""
        keys = self._turned(self.k_norm(self.k_proj(x))[:, None], *half)[:, 0]
        if self.pool is None:
            return keys
        real = x.new_ones(*x.shape[:2], 1) if step.keep is None else step.keep[:, -x.shape[1] :, None].to(x.dtype)
        return torch.cat([keys, self.pool_gate(x), real], dim=-1)

    def _turned(self, x: Tensor, *half: Tensor) -> Tensor:
        """x [batch, heads, seq, d_head]; half: cosines and sines of the positions, none where nothing turns."""
        if not half:
            return x
        still = x.shape[-1] - 2 * half[0].shape[-1] if self.spec.last else 0
        return torch.cat([x[..., :still], rotate(x[..., still:], *half, interleaved=self.spec.interleaved)], -1)

    @torch.no_grad()
    def forward(self, x: Tensor, q_latent: Tensor, cached: Tensor, mask: Tensor, step: Step, *half: Tensor) -> Tensor:
        """q_latent [batch, seq, q_rank], cached [batch, tokens, width], mask [batch or 1, 1, seq, tokens] -> [batch, 1,
        seq, tokens], True where chosen."""
        read = q_latent if self.spec.q_norm is None else self.q_norm(x)
        q = self._turned(split(self.q_b_proj(read), self.spec.n_heads), *half)
        q = self.temperature(q, step) if self.spec.head_temperature else q
        keys, seen, numbers = cached, mask, None
        if self.pool is not None:
            keys, seen, numbers = self._pooled(cached, mask, self.pool)
        scores = (wide(q) @ wide(keys)[:, None].transpose(-2, -1) * self.spec.d_head**-0.5).relu()
        weights = wide(self.weights_proj(x)) * self.spec.n_heads**-0.5
        # [batch, seq, 1, n_heads] @ [batch, seq, n_heads, keys]
        scores = (weights[:, :, None] @ scores.transpose(1, 2)).transpose(1, 2).masked_fill(~seen, -torch.inf)
        best = scores.topk(min(self.top_k // (self.pool or 1), scores.shape[-1]), dim=-1).indices
        chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)
        return chosen if numbers is None else self._tokens(chosen & seen, numbers, mask, len(x))

    def _pooled(self, cached: Tensor, mask: Tensor, pool: int) -> tuple[Tensor, Tensor, Tensor]:
        """One key a pool [batch, pools, d_head], which of them each new token sees, [batch, 1, seq, pools], and the
        numbers of their tokens [batch, pools, pool]. Pools follow one another from the first token that is no padding.
        """
        keys, gates, real = cached.split([self.spec.d_head, self.spec.d_head, 1], dim=-1)
        tokens, real = real.shape[1], real[..., 0] > 0
        first = real.int().argmax(-1)[:, None, None]
        numbers = first + torch.arange(tokens // pool * pool, device=cached.device).unflatten(0, (-1, pool))
        at = numbers.clamp(max=tokens - 1)
        rows = torch.arange(len(cached), device=cached.device)[:, None, None]
        whole = (real[rows, at] & (numbers < tokens)).all(-1)
        weights = (wide(gates[rows, at]) + wide(self.pool_bias)).softmax(2).to(keys.dtype)
        ends = at[:, None, None, :, -1].expand(-1, 1, mask.shape[2], -1)
        seen = mask.expand(len(cached), -1, -1, -1).gather(-1, ends) & whole[:, None, None]
        return (weights * keys[rows, at]).sum(2), seen, at

    def _tokens(self, chosen: Tensor, numbers: Tensor, mask: Tensor, batch: int) -> Tensor:
        """chosen [batch, 1, seq, pools] -> tokens of those pools, and those that stand behind the last whole pool that
        a token sees."""
        mask = mask.expand(batch, -1, -1, -1)
        pool = numbers.shape[-1]
        at = numbers.flatten(1)[:, None, None].expand(-1, 1, mask.shape[2], -1)
        inside = torch.zeros_like(mask, dtype=torch.int).scatter_add(-1, at, chosen.repeat_interleave(pool, -1).int())
        count = mask.cumsum(-1)
        return (inside > 0) | (mask & (count > count[..., -1:] // pool * pool))
