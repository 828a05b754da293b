"""What the layers of a block of Funnel Transformer share, and how halvings change it: the twin of
`calc.blocks.funnel_tables`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from calc.spec import FunnelAttention
from reference_models.blocks.positions import sinusoidal


@dataclass(frozen=True)
class Tables:
    """Of queries and keys: segments [batch, seq, keys], True where two vectors are of one; apart [seq, keys], 0 at
    pairs with the first vector, or None; and either the sinusoids of all distances [distances, d_model], or where both
    have tables of their own (factorized) those of queries' places and of keys', sines first."""

    segments: Tensor
    apart: Tensor | None
    sinusoids: Tensor | None
    queries: tuple[Tensor, ...]
    keys: tuple[Tensor, ...]


@dataclass(frozen=True)
class Blocks:
    """Where a text stands among its halvings. tables: of the layers at hand; ahead: of the next one, which reads keys
    of the vectors ahead of the halving, `unhalved`, or None. places: of each vector in the text; stride: between two.
    whole: the vectors ahead of the first halving, and the step of those."""

    tables: Tables
    places: tuple[int, ...]
    d_model: int
    dropout: float
    stride: int = 1
    ahead: Tables | None = None
    unhalved: Tensor | None = None
    whole: tuple[Tensor, Any] | None = None

    def behind(self) -> Blocks:
        """The same for the layers behind the next one."""
        return self if self.unhalved is None else replace(self, ahead=None, unhalved=None)


def began(spec: FunnelAttention, x: Tensor, token_types: Tensor | None, dropout: float) -> Blocks:
    """The tables of x [batch, seq, d_model], of which nothing has been halved."""
    batch, seq, d_model = x.shape
    types = torch.zeros(batch, seq, dtype=torch.long, device=x.device) if token_types is None else token_types
    # A type of its own is of both segments.
    both = types == 2
    segments = both[:, :, None] | both[:, None] | (types[:, :, None] == types[:, None])
    apart = F.pad(x.new_ones(seq - 1, seq - 1), (1, 0, 1, 0)) if spec.first_apart else None
    places = tuple(range(seq))
    if not spec.factorized:
        sinusoids = _sinusoids(x, places, places, 1, 1, dropout)
        return Blocks(Tables(segments, apart, sinusoids, (), ()), places, d_model, dropout)
    made = sinusoidal(torch.arange(seq, device=x.device), d_model, "apart").to(x.dtype)
    sine, cosine = made.chunk(2, -1)
    dropped = [F.dropout(each, dropout) for each in (sine, cosine)]
    queries = tuple(torch.cat([each, each], -1) for each in dropped)
    keys = torch.cat([cosine, sine], -1), torch.cat([-sine, cosine], -1)
    return Blocks(Tables(segments, apart, None, queries, keys), places, d_model, dropout)


def halved_tables(before: Blocks, x: Tensor, *, first_apart: bool, cut: bool, unhalved: bool) -> Blocks:
    """The tables behind a halving of x [batch, seq, d_model]. unhalved: whether the first layer's keys are of x."""
    tables, stride = before.tables, 2 * before.stride

    def some(table: Tensor, axis: int) -> Tensor:
        """Every second place of a table, as vectors are paired."""
        if first_apart:
            table = torch.cat([table.narrow(axis, 0, 1), table], axis)
        last = table.shape[axis] - (first_apart and cut)
        index = [slice(None)] * axis + [slice(None, last, 2)]
        return table[tuple(index)]

    if first_apart:
        inner = before.places[1:-1] if cut else before.places[1:]
        places = (1 - stride, *inner[::2])
    else:
        places = before.places[::2]
    queries = tuple(some(each, 0) for each in tables.queries)
    keys = tuple(some(each, 0) for each in tables.keys)
    factorized = tables.sinusoids is None
    own = None if factorized else _sinusoids(x, places, places, stride, 1, before.dropout)
    segments = some(tables.segments, 1)
    if unhalved:
        apart = None if tables.apart is None else some(tables.apart, 0)
        far = None if factorized else _sinusoids(x, before.places, places, before.stride, 2, before.dropout)
        ahead = Tables(segments, apart, far, queries, tables.keys)
        later = Tables(some(segments, 2), None if apart is None else some(apart, 1), own, queries, keys)
    else:
        apart = None if tables.apart is None else some(some(tables.apart, 1), 0)
        ahead, later = None, Tables(some(segments, 2), apart, own, queries, keys)
    return replace(before, tables=later, places=places, stride=stride, ahead=ahead, unhalved=x if unhalved else None)


def _sinusoids(
    x: Tensor, keys: tuple[int, ...], queries: tuple[int, ...], stride: int, shift: int, dropout: float
) -> Tensor:
    """Those of all distances between places that are `stride` apart, the largest first, in the format of x."""
    least, most = queries[0] - keys[-1], queries[0] - keys[0] + shift * len(queries) * stride
    places = torch.arange(most, least - 1, -stride, device=x.device)
    return F.dropout(sinusoidal(places, x.shape[-1], "apart").to(x.dtype), dropout)
