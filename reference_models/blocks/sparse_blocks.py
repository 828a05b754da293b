"""Attention to blocks of a long text: the twin of `calc.blocks.sparse_blocks`, which lays out no zeros."""

from __future__ import annotations

import torch
from torch import Tensor

from calc.spec import SparseBlocks
from reference_models.step import Step, recomputed

HIDDEN = -10_000.0
"""What is added to scores of keys that fill a text up, as in transformers."""


def in_blocks(
    spec: SparseBlocks, q: Tensor, k: Tensor, v: Tensor, scale: float, step: Step, dtype: torch.dtype, *, draws: bool
) -> Tensor:
    """q, k, v [batch, n_heads, seq, d_head] of whole blocks -> the same shape.

    dtype: of the stream. draws: whether blocks are drawn, as in training, or the first one is always taken.
    """
    there = _there(q, step).to(dtype)

    def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        places = _places(spec, q, draws=draws)
        blocked = [x.unflatten(2, (-1, spec.block)) for x in (q, k, v)]
        drawn = [_drawn(x, places) for x in blocked[1:]]
        whole = torch.cat(_rows(spec, (q, k, v), blocked, drawn, places, (1 - there) * HIDDEN, scale), 2)
        return whole.flatten(2, 3) * there[:, None, :, None]

    return recomputed(core, q, k, v) if step.checkpointing == "selective" else core(q, k, v)


def _there(q: Tensor, step: Step) -> Tensor:
    """[batch, seq], 1 at tokens and 0 at what fills a text up, once for all layers."""
    if "there" not in step.made:
        batch, seq = q.shape[0], q.shape[2]
        every = torch.ones(batch, seq, device=q.device)
        step.made["there"] = every if step.keep is None else every * step.keep
    return step.made["there"]


def _places(spec: SparseBlocks, q: Tensor, *, draws: bool) -> Tensor:
    """[batch, n_heads, blocks - 2, drawn]: the blocks that each block but the first and the last one draws, of those
    that it does not see anyway; alike in all texts."""
    batch, heads, n = *q.shape[:2], q.shape[2] // spec.block
    places = torch.zeros(heads, n - 2, spec.drawn, dtype=torch.long, device=q.device)
    if draws:
        row, column = torch.arange(1, n - 1, device=q.device)[:, None], torch.arange(n, device=q.device)
        seen = ((row - column).abs() < 2) | (column == 0) | (column == n - 1)
        chances = torch.rand(heads, n - 2, n, device=q.device).masked_fill(seen, -1.0)
        places = chances.topk(spec.drawn, dim=-1).indices
    return places.expand(batch, -1, -1, -1).contiguous()


def _drawn(x: Tensor, places: Tensor) -> Tensor:
    """x [batch, n_heads, blocks, block, d_head] -> those that are drawn, [batch, n_heads, blocks - 2, drawn * block,
    d_head]."""
    index = places.flatten(2)[..., None, None].expand(-1, -1, -1, *x.shape[3:])
    found = torch.gather(x, 2, index)
    return found.view(*x.shape[:2], places.shape[2], -1, x.shape[-1])


def _rows(
    spec: SparseBlocks,
    whole: tuple[Tensor, Tensor, Tensor],
    blocked: list[Tensor],
    drawn: list[Tensor],
    places: Tensor,
    hidden: Tensor,
    scale: float,
) -> list[Tensor]:
    """Values of the first block, the next one, all others, the last but one and the last, each [batch, n_heads, blocks,
    block, d_head]. hidden: what is added to the scores of each key [batch, seq]."""
    (q, k, v), (_, keys, values) = blocked, whole
    of_block = hidden.unflatten(1, (-1, spec.block))
    of_drawn = _hidden(of_block, places)

    def end(i: int) -> Tensor:
        scores = q[:, :, i] @ keys.transpose(-1, -2) * scale
        return _shares(scores, hidden[:, None, None]) @ values

    def next_to(i: int, near: tuple[int, ...], place: int) -> Tensor:
        there = [
            torch.cat([*(x[:, :, n] for n in near), y[:, :, place]], 2) for x, y in zip((k, v), drawn, strict=True)
        ]
        scores = q[:, :, i] @ there[0].transpose(-1, -2) * scale
        own = torch.cat([of_block[:, n] for n in near], -1)[:, None].expand(-1, q.shape[1], -1)
        return _shares(scores, torch.cat([own, of_drawn[:, :, place]], -1)[:, :, None]) @ there[1]

    middle = _middle(blocked, drawn, of_block, of_drawn, scale)
    first, second = end(0)[:, :, None], next_to(1, (0, 1, 2, -1), 0)[:, :, None]
    return [first, second, middle, next_to(-2, (0, -3, -2, -1), -1)[:, :, None], end(-1)[:, :, None]]


def _middle(blocked: list[Tensor], drawn: list[Tensor], of_block: Tensor, of_drawn: Tensor, scale: float) -> Tensor:
    """Values of the blocks that see themselves, one on both sides, the first, the last and what they draw."""
    q, k, v = blocked
    q, block, heads = q[:, :, 2:-2], q.shape[3], q.shape[1]
    around = [torch.cat([x[:, :, 1:-3], x[:, :, 2:-2], x[:, :, 3:-1]], 3) for x in (k, v)]
    scores = [
        torch.einsum("bhlqd,bhkd->bhlqk", q, k[:, :, 0]),
        q @ around[0].transpose(-1, -2),
        q @ drawn[0][:, :, 1:-1].transpose(-1, -2),
        torch.einsum("bhlqd,bhkd->bhlqk", q, k[:, :, -1]),
    ]
    ends = [of_block[:, None, i].expand(-1, q.shape[2], -1) for i in (0, -1)]
    near = torch.cat([ends[0], of_block[:, 1:-3], of_block[:, 2:-2], of_block[:, 3:-1]], -1)
    added = [x[:, None].expand(-1, heads, -1, -1) for x in (near, ends[1])]
    hidden = torch.cat([added[0], of_drawn[:, :, 1:-1], added[1]], -1)[:, :, :, None]
    shares = _shares(torch.cat(scores, -1) * scale, hidden)
    y = shares[..., block : 4 * block] @ around[1] + shares[..., 4 * block : -block] @ drawn[1][:, :, 1:-1]
    y = y + torch.einsum("bhlqk,bhkd->bhlqd", shares[..., :block], v[:, :, 0])
    return y + torch.einsum("bhlqk,bhkd->bhlqd", shares[..., -block:], v[:, :, -1])


def _shares(scores: Tensor, hidden: Tensor) -> Tensor:
    return (scores + hidden.to(scores.dtype)).softmax(-1)


def _hidden(of_block: Tensor, places: Tensor) -> Tensor:
    """[batch, n_heads, blocks - 2, drawn * block]: what is added to the scores of what is drawn."""
    index = places.flatten(1)[..., None].expand(-1, -1, of_block.shape[-1])
    return torch.gather(of_block, 1, index).view(*places.shape[:3], -1)
