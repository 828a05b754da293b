"""From bytes to patches and back: hashed groups of bytes, pooled patches, and attention between both (BLT)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from calc.spec import Attention, Hashes, PatchAttention, Patched
from reference_models.blocks.attend import attend, split
from reference_models.blocks.linear import NormLayer
from reference_models.step import Step
from reference_models.support import supported

PRIMES = (
    *(1000000007, 5915587277, 1500450271, 3267000013, 5754853343, 4093082899, 9576890767, 3628273133, 2860486313),
    *(5463458053, 3367900313),
)
"""What each function of the hash multiplies bytes with: transformers 5.23, models/blt/modeling_blt.py."""


class HashTables(nn.Module):
    """All tables as one."""

    def __init__(self, spec: Hashes, width: int) -> None:
        super().__init__()
        supported(spec, "groups", "functions", "n_rows")
        self.spec = spec
        self.weight = nn.Parameter(torch.empty(spec.tables * spec.n_rows, width).normal_(std=0.02))

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [batch, seq] -> the sum of what all groups are hashed to, [batch, seq, width]."""
        rows = [
            _hashed(tokens, size, PRIMES[function % len(PRIMES)]) % self.spec.n_rows
            for function in range(self.spec.functions)
            for size in self.spec.groups
        ]
        starts = self.spec.n_rows * torch.arange(len(rows), device=tokens.device)
        return nn.functional.embedding(torch.stack(rows, -1) + starts, self.weight).sum(-2)


def _hashed(tokens: Tensor, size: int, prime: int) -> Tensor:
    """Of each group of `size` tokens that ends at a place, the first one first: their sum, each times a power of prime
    in 64 bits; ahead of a text stand zeros."""
    windows = nn.functional.pad(tokens, (size - 1, 0)).unfold(1, size, 1)
    powers = torch.tensor(prime, device=tokens.device) ** torch.arange(size, device=tokens.device)
    return (windows * powers).sum(-1)


class AttentionOfPatches(nn.Module):
    """x plus x plus what it reads of a source, both through norms of their own."""

    def __init__(self, spec: PatchAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "n_kv_heads", "d_head", "norm")
        self.spec = spec
        self.core = Attention(
            n_heads=spec.n_heads, n_kv_heads=spec.n_kv_heads, d_head=spec.d_head, causal=False, position="none"
        )
        self.q_norm, self.k_norm = (NormLayer(spec.norm, (d_model,)) for _ in "qk")
        self.q_proj = nn.Linear(d_model, spec.n_heads * spec.d_head, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(d_model, spec.kv_heads * spec.d_head, bias=False) for _ in "kv")
        self.o_proj = nn.Linear(spec.n_heads * spec.d_head, d_model, bias=False)

    def forward(self, x: Tensor, source: Tensor, mask: Tensor, step: Step) -> Tensor:
        """x [batch, queries, d], source [batch, keys, d], mask [batch, 1, queries, keys], added to the scores."""
        known = self.k_norm(source)
        q = split(self.q_proj(self.q_norm(x)), self.spec.n_heads)
        k, v = (split(each(known), self.spec.kv_heads) for each in (self.k_proj, self.v_proj))
        read = attend(self.core, q, k, v, step, bias=mask)
        return x + (self.o_proj(read.transpose(1, 2).flatten(2)) + x)


class IntoPatches(nn.Module):
    """[batch, seq, d] -> [batch, patches, width of a patch]; the first patch is one byte."""

    def __init__(self, spec: Patched, d_model: int) -> None:
        super().__init__()
        supported(spec, "length", "vectors", "reader", "d_patch")
        self.spec = spec
        self.project = nn.Linear(d_model, spec.vectors * d_model, bias=False)
        self.attention = AttentionOfPatches(spec.reader, d_model)
        if spec.d_patch is not None:
            self.widen = nn.Linear(spec.vectors * d_model, spec.d_patch, bias=False)

    def forward(self, x: Tensor, step: Step) -> tuple[Tensor, Step]:
        """The patches' vectors, and the step of those that read them. Errors: ValueError beside a cache or padding."""
        if not isinstance(step.start, int) or step.start or step.keep is not None:
            raise ValueError("inputs: expected whole texts without padding, whose bytes become patches")
        batch, seq, d_model = x.shape
        n = int(self.spec.count(seq))
        patches = (torch.arange(seq, device=x.device) + self.spec.length - 1) // self.spec.length
        zeros = torch.zeros(batch, n, d_model, dtype=x.dtype, device=x.device)
        places = patches.expand(batch, -1).contiguous()[..., None].expand_as(x)
        largest = zeros.scatter_reduce(1, places, x, "amax", include_self=False)
        y = self.project(largest).view(batch, n * self.spec.vectors, d_model)
        owners = torch.arange(n, device=x.device).repeat_interleave(self.spec.vectors)
        # What is computed again stands within layers.
        once = replace(step, checkpointing="none")
        y = self.attention(y, x, apart(owners[:, None] != patches, x), once).view(batch, n, -1)
        y = y if self.spec.d_patch is None else self.widen(y)
        return y, replace(step, positions=torch.arange(n, device=x.device)[None], unpatched=(x, step))


class OutOfPatches(nn.Module):
    """[batch, patches, width of a patch] -> the bytes' vectors again; what each byte reads stands in the step."""

    def __init__(self, vectors: int, length: int, d_patch: int, d_model: int) -> None:
        super().__init__()
        self.vectors, self.length = vectors, length
        self.project = nn.Linear(d_patch, vectors * d_model, bias=False)

    def forward(self, x: Tensor, step: Step) -> tuple[Tensor, Step]:
        """Each byte reads the last patch that has ended by it, or the only one there is."""
        assert step.unpatched is not None
        own, before = step.unpatched
        batch, n, _ = x.shape
        source = self.project(x).view(batch, n * self.vectors, own.shape[-1])
        read = (torch.arange(own.shape[1], device=x.device) // self.length).clamp(max=max(n - 2, 0))
        owners = torch.arange(n, device=x.device).repeat_interleave(self.vectors)
        return own, replace(before, patches=(source, apart(read[:, None] != owners, own)))


def apart(hidden: Tensor, x: Tensor) -> Tensor:
    """hidden [queries, keys] -> [batch, 1, queries, keys] in the format of x [batch, …]: what leaves nothing of a score
    where it is True, and 0 elsewhere."""
    added = torch.zeros(hidden.shape, dtype=x.dtype, device=x.device).masked_fill(hidden, torch.finfo(x.dtype).min)
    return added.expand(len(x), 1, -1, -1).contiguous()
