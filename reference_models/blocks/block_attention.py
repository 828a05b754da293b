"""Attention within blocks of a sequence, and over sums of its tokens: the twin of `calc.blocks.block_attention`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Attention, BlockAttention
from reference_models.blocks.attend import added_mask, attend
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.relative import RelativeBias
from reference_models.step import Step, recomputed
from reference_models.support import supported


class InBlocks(nn.Module):
    """Queries of each block over keys of it, of both blocks beside it, and of all sums."""

    name = "attention"

    def __init__(self, spec: BlockAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "block", "summary", "norm", "buckets")
        self.spec = spec
        width = spec.n_heads * spec.d_head
        for one in "qkv":
            self.add_module(f"{one}_proj", nn.Linear(d_model, width, bias=False))
        if spec.summary is not None:
            self.sum_norm = NormLayer(spec.norm, (d_model,))
        self.o_proj = nn.Linear(width, d_model, bias=False)
        self.core = Attention(
            n_heads=spec.n_heads, d_head=spec.d_head, causal=False, position="none", scale=1.0, buckets=spec.buckets
        )

    def new_cache(self, length: int | None) -> None:
        """Tokens see those to come, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape. Errors: ValueError without the stack's tables."""
        if step.relative is None:
            raise ValueError("relative: expected the tables that all layers share, found none")
        seq, block = x.shape[1], self.spec.block
        read = x if self.spec.summary is None else torch.cat([x, self.sum_norm(self._sums(x, step))], 1)
        q = self._filled(self._heads("q", x), 0).unflatten(1, (-1, block)).transpose(2, 3).flatten(0, 1).contiguous()
        k, v = (self._seen(self._heads(name, read), seq) for name in "kv")
        bias = step.relative(None, None, causal=False)
        bias = bias.expand(len(x), -1, -1, -1, -1).flatten(0, 1) if len(x) > 1 else bias[0]
        y = attend(self.core, q, k, v, step, bias=bias, apart=True)
        y = y.unflatten(0, (len(x), -1)).transpose(2, 3).flatten(3).flatten(1, 2)
        # Without what filled the last block, in memory of its own.
        return self.o_proj(F.pad(y, (0, 0, 0, seq - y.shape[1])))

    def _heads(self, name: str, x: Tensor) -> Tensor:
        """[batch, n, d_model] -> [batch, n, n_heads, d_head]."""
        return self.get_submodule(f"{name}_proj")(x).unflatten(-1, (self.spec.n_heads, -1))

    def _filled(self, x: Tensor, beside: int) -> Tensor:
        """x [batch, seq, n_heads, d_head] with zeros up to the end of its last block, and more on both sides."""
        return F.pad(x, (0, 0, 0, 0, beside, -x.shape[1] % self.spec.block + beside))

    def _seen(self, x: Tensor, seq: int) -> Tensor:
        """Keys or values of tokens and then of sums -> those of each block, [batch * blocks, n_heads, keys, d_head]."""
        block = self.spec.block
        near = self._filled(x[:, :seq], block).unfold(1, 3 * block, block).transpose(3, 4)
        sums = x[:, None, seq:].transpose(2, 3).expand(-1, near.shape[1], -1, -1, -1)
        return torch.cat([near, sums], 3).flatten(0, 1)

    def _sums(self, x: Tensor, step: Step) -> Tensor:
        """[batch, sums, d_model]."""

        def summed(x: Tensor) -> Tensor:
            seq, each = x.shape[1], self.spec.summary or 1
            of_token = torch.arange(seq, device=x.device) // each
            members = of_token.clamp(max=seq // each - 1) == torch.arange(seq // each, device=x.device)[:, None]
            return members.to(x.dtype).expand(len(x), -1, -1).contiguous() @ x

        return recomputed(summed, x) if step.checkpointing == "selective" else summed(x)


def add_tables(stack: nn.Module, spec: BlockAttention) -> None:
    """The tables that all layers of the stack share."""
    stack.add_module("relative_bias", RelativeBias(spec.buckets, spec.n_heads))
    if spec.summary is not None:
        stack.add_module("summary_bias", RelativeBias(spec.buckets, spec.n_heads))


def block_bias(stack: nn.Module, spec: BlockAttention, x: Tensor, step: Step) -> Tensor:
    """What all layers add to their scores, [batch or 1, blocks, n_heads, block, 3 * block + sums]: numbers for
    distances, and what hides what is out of sight. x [batch, seq, d_model].

    Errors: ValueError for padding beside sums, which leave it out in ways of their own.
    """
    seq, block = x.shape[1], spec.block
    blocks = -(-seq // block)
    keys, queries = torch.arange(3 * block, device=x.device), torch.arange(block, 2 * block, device=x.device)
    places = torch.arange(blocks, device=x.device)[:, None] * block + keys - block
    there = ((places >= 0) & (places < seq))[None]
    if step.keep is not None:
        there = there & step.keep[:, places.clamp(0, seq - 1)]
    seen = ((keys - queries[:, None]).abs() < block) & there[:, :, None, None]
    bias = stack.get_submodule("relative_bias")(queries, keys, causal=False)[None]
    bias = bias + added_mask(seen, bias.dtype)
    if spec.summary is None:
        return bias
    if step.keep is not None:
        raise ValueError("keep: expected none, since sums of tokens are not described for padding")
    sums = seq // spec.summary
    of_token = (torch.arange(seq, device=x.device) // spec.summary).clamp(max=sums - 1)
    far = stack.get_submodule("summary_bias")(of_token, torch.arange(sums, device=x.device), causal=False)
    far = F.pad(far, (0, 0, 0, -seq % block)).unflatten(2, (blocks, block)).transpose(1, 2)
    return torch.cat([bias, far.expand(len(bias), -1, -1, -1, -1)], -1)
