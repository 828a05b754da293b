"""How far attention is from the same in float64: of one group of heads, and of as many rows as memory allows.

torch is imported inside the functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from calc.attention.shape import AttentionShape
from harness.cases.tensors import relative
from harness.kernels import KERNELS, REFERENCES

if TYPE_CHECKING:
    from torch import Tensor

SCORES = 2**23
"""Scores of one check at most: several tensors of so many numbers in float64."""


@dataclass(frozen=True)
class _Slice:
    """Some queries of the first sequence and of the first heads that share keys.

    shape: of them alone, in float64. start: the first query. heads, kv_heads: how many of each.
    """

    shape: AttentionShape
    start: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.shape.seq)

    def operands(self, used: Sequence[Tensor], gradients: bool) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v of it; of latent attention the cache and its heads' matrices."""
        q, k, v = (each.detach() for each in used[:3])
        latent = self.shape.kv_rank is not None
        parts = (
            q[:1, : self.shape.heads, self.rows],
            k[:1, : 1 if latent else self.shape.kv_heads, : self.shape.keys],
            v[: self.shape.heads] if latent else v[:1, : self.shape.kv_heads, : self.shape.keys],
        )
        q, k, v = (part.double().requires_grad_(gradients) for part in parts)
        return q, k, v


def slices(shape: AttentionShape) -> Iterator[_Slice]:
    """The last queries, and where they are not all, the first ones too.

    First ones see fewer keys, or without a mask as many as all; of a window to both sides they would see other ones.
    """
    heads, kv_heads = (1, 1) if shape.kv_rank is not None else (shape.group, 1)
    one = replace(shape, batch=1, heads=heads, kv_heads=kv_heads, dtype="fp64", lengths=None)
    rows = min(shape.seq, max(SCORES // (heads * shape.keys), 1))
    yield _Slice(replace(one, seq=rows), shape.seq - rows)
    if rows < shape.seq and (shape.causal or shape.window is None):
        keys = max(shape.offset + rows, 1) if shape.causal else shape.keys
        yield _Slice(replace(one, seq=rows, keys=keys), 0)


def error(shape: AttentionShape, backend: str, found: Tensor | Sequence[Tensor], used: Sequence[Tensor]) -> float:
    """The largest relative error. found: the output, or going back the gradients of q, k and v; used: q, k and v, and
    going back the output and its gradient."""
    reference = KERNELS[REFERENCES[KERNELS[backend].function]]
    worst = 0.0
    for part in slices(shape):
        q, k, v = part.operands(used, shape.direction == "backward")
        right = reference.forward(q, k, v, part.shape)
        if shape.direction == "forward":
            worst = max(worst, relative(found[:1, : part.shape.heads, part.rows], right))  # pyright: ignore[reportArgumentType, reportCallIssue]
        else:
            worst = max(worst, _gradients(part, shape, found, used[4], (q, k, v), right))
    return worst


def _gradients(
    part: _Slice,
    shape: AttentionShape,
    found: Tensor | Sequence[Tensor],
    gradient: Tensor,
    wide: tuple[Tensor, Tensor, Tensor],
    right: Tensor,
) -> float:
    """Of the queries' gradient; of the keys' and values' where all queries that see them are in the slice: in the
    whole, and with a causal mask of the last keys."""
    import torch

    theirs = torch.autograd.grad(right, wide, gradient[:1, : part.shape.heads, part.rows].double())
    errors = [relative(found[0][:1, : part.shape.heads, part.rows], theirs[0])]
    if part.shape.seq == shape.seq:
        last = shape.keys
    elif shape.causal and part.start:
        last = part.shape.seq
    else:
        return errors[0]
    errors += [
        relative(mine[:1, : part.shape.kv_heads, -last:], right_one[:, :, -last:])
        for mine, right_one in zip(found[1:], theirs[1:], strict=True)
    ]
    return max(errors)
