"""The indexer that chooses blocks of tokens for attention over keys and values, the twin of
`calc.blocks.block_indexer`.

Source: transformers 5.23, models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextQSAIndexer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import BlockIndexer, Norm, Rope
from reference_models.blocks.attend import split
from reference_models.blocks.linear import NormLayer, wide
from reference_models.blocks.positions import rotate, rotation
from reference_models.step import Step
from reference_models.support import supported


class ChosenBlocks(nn.Module):
    """Which tokens each new one attends to. A choice has no gradient."""

    def __init__(self, spec: BlockIndexer, rope: Rope, d_head: int, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "rate", "budget", "eps")
        self.spec, self.rope, self.d_turned = spec, rope, d_head
        norm = Norm(unit_offset=True, eps=spec.eps)
        self.qk_proj = nn.Linear(d_model, (spec.n_heads + 1) * spec.d_head, bias=False)
        self.q_norm, self.k_norm = NormLayer(norm, (spec.d_head,)), NormLayer(norm, (spec.d_head,))

    @torch.no_grad()
    def projected(self, x: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """x [batch, seq, d_model] -> turned queries [batch, n_heads, seq, d_head], and keys [batch, seq, d_head] as
        they are kept."""
        q, k = self.qk_proj(x).split([self.spec.n_heads * self.spec.d_head, self.spec.d_head], -1)
        normed = self.q_norm(split(q, self.spec.n_heads))
        cos, sin = rotation(self.rope, self.d_turned, step.positions)
        return rotate(normed, cos, sin, interleaved=self.rope.interleaved).to(x.dtype), k

    @torch.no_grad()
    def forward(self, q: Tensor, keys: Tensor, mask: Tensor, step: Step) -> Tensor:
        """q as above, keys [batch, tokens, d_head], mask [batch or 1, 1, seq, tokens], True at the tokens that each new
        one may see -> of these, True at those that it attends to, with padding for each sequence of the batch."""
        rate, n_keys, at_once = self.spec.rate, mask.shape[-1], step.keep is None and isinstance(step.start, int)
        if at_once:
            seen = [step.start + i + 1 for i in range(q.shape[2])]
            block = torch.arange(n_keys, device=q.device) // rate
            return mask & self._chosen(q, keys[:, : seen[-1]], seen, block)[:, None]
        rows = []
        for i, allowed in enumerate(mask[:, 0].expand(len(q), -1, -1)):
            # The last query sees every token that any does.
            shown = allowed.any(0)
            block = (shown.cumsum(0) - 1) // rate
            rows.append(self._chosen(q[i : i + 1], keys[i : i + 1, shown], allowed.sum(-1).tolist(), block))
        return mask & torch.stack(rows)

    def _chosen(self, q: Tensor, keys: Tensor, seen: list[int], block: Tensor) -> Tensor:
        """Of sequences that are padded alike: keys [batch, those that any query sees, d_head], how many of them each
        query sees, and of each token its block -> [batch, seq, tokens].

        Queries that see as many complete blocks are multiplied together, with these and no others.
        """
        spec, means = self.spec, self._means(keys)
        chosen = torch.zeros(len(q), len(seen), len(block), dtype=torch.bool, device=q.device)
        complete = [each // spec.rate for each in seen]
        for count in sorted(set(complete)):
            own = slice(complete.index(count), len(complete) - complete[::-1].index(count))
            chosen[:, own] = block >= count
            if count:
                scores = wide(q[:, :, own]) @ wide(means[:, None, :count]).transpose(-2, -1)
                scores = scores.relu().sum(1) * spec.d_head**-0.5
                best = scores.topk(min(spec.budget // spec.rate, count), dim=-1).indices
                taken = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)
                chosen[:, own] |= taken[..., block.clamp(0, count - 1)] & (block < count)
        return chosen

    def _means(self, keys: Tensor) -> Tensor:
        """keys [batch, tokens, d_head] -> [batch, complete blocks, d_head], each turned as its first token."""
        blocks = keys.shape[1] // self.spec.rate
        groups = keys[:, : blocks * self.spec.rate].unflatten(1, (blocks, self.spec.rate))
        means = self.k_norm(wide(groups).mean(2).to(keys.dtype))
        if not blocks:
            return means
        starts = torch.arange(blocks, device=keys.device)[None] * self.spec.rate
        cos, sin = rotation(self.rope, self.d_turned, starts)
        return rotate(means[:, None], cos, sin, interleaved=self.rope.interleaved)[:, 0].to(keys.dtype)
