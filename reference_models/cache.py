"""What a model keeps between passes: one `LayerCache` for each mixer, gathered in a `Cache`.

The bytes of the tensors held here are what `calc.kv_cache` predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


class LayerCache:
    """The tensors of one mixer, all with the batch in front. Subclasses say how they are updated.

    state: the tensors by name; `reorder` and `nbytes` need no more than this.
    """

    def __init__(self) -> None:
        self.state: dict[str, Tensor] = {}

    def reorder(self, rows: Tensor) -> None:
        """Keep the sequences `rows` of the batch, in that order; one may come several times (beam search)."""
        self.state = {name: tensor.index_select(0, rows) for name, tensor in self.state.items()}

    @property
    def nbytes(self) -> int:
        """Of its vectors; numbers of tokens are not counted."""
        return sum(each.numel() * each.element_size() for each in self.state.values() if each.is_floating_point())


class Growing(LayerCache):
    """Tensors [batch, ..., tokens, width] that each pass makes longer: keys and values, or a latent in their place.

    window: after each pass only the last `window - 1` tokens stay, since the next token brings itself.
    """

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.window = window

    def update(self, start: Any, **new: Tensor) -> tuple[list[Tensor], Tensor]:
        """Everything that the new tokens may attend to: (old and new of each tensor, the number of each of its tokens).

        start: tokens of the sequence that came before this pass. Errors: ValueError for a tensor.
        """
        if isinstance(start, Tensor):
            raise ValueError("start: expected a number for a cache that grows, found a tensor (new_cache(length))")
        whole = [torch.cat([self.state[n], t], dim=-2) if n in self.state else t for n, t in new.items()]
        first = start - (self.state[next(iter(new))].shape[-2] if self.state else 0)
        numbers = torch.arange(first, start + _length(new), device=whole[0].device)
        if self.window is None:
            self.state = dict(zip(new, whole, strict=True))
        else:
            entries = min(self.window - 1, whole[0].shape[-2])
            # A copy: a view would keep the whole tensor in memory.
            self.state = {n: t[..., t.shape[-2] - entries :, :].clone() for n, t in zip(new, whole, strict=True)}
        return whole, numbers


class Static(LayerCache):
    """Room for `length` tokens (or for a window, if that is less), laid out at the first pass and written in place."""

    def __init__(self, length: int, window: int | None = None) -> None:
        super().__init__()
        self.room = length if window is None else min(length, window)
        self.sliding = window is not None

    def update(self, start: Any, **new: Tensor) -> tuple[list[Tensor], Tensor]:
        """As Growing.update. Tokens that are not there yet have negative numbers or ones past the newest.

        start: may be a tensor of one, whose value is then never asked for, nor whether there is room.
        """
        count = _length(new)
        for name, tensor in new.items():
            if name not in self.state:
                self.state[name] = tensor.new_zeros(*tensor.shape[:-2], self.room, tensor.shape[-1])
        device = next(iter(new.values())).device
        numbers = torch.arange(count, device=device) + start
        slots = numbers[-self.room :]
        if not self.sliding and not isinstance(start, Tensor) and start + count > self.room:
            raise ValueError(f"cache: room for {self.room} tokens, found {start + count}")
        before = [torch.cat([self.state[n], t], dim=-2) for n, t in new.items()] if self.sliding and count > 1 else None
        for name, tensor in new.items():
            self.state[name].index_copy_(-2, slots % self.room, tensor[..., -self.room :, :].to(self.state[name].dtype))
        if before is not None:
            return before, torch.cat([self._numbers(start, device), numbers])
        return [self.state[n] for n in new], self._numbers(start + count, device)

    def _numbers(self, tokens: Any, device: torch.device) -> Tensor:
        """Which token each slot holds after `tokens` of them; negative where it holds none."""
        slots = torch.arange(self.room, device=device)
        return slots if not self.sliding else tokens - 1 - (tokens - 1 - slots) % self.room


class Fixed(LayerCache):
    """Tensors that are written once and never grow: an encoder's keys and values, or the state of a recurrence."""

    def set(self, **tensors: Tensor) -> list[Tensor]:
        self.state = dict(tensors)
        return list(tensors.values())


class Entries(LayerCache):
    """Entries [batch, entries, width], each made of `rate` tokens, and what the next ones are made of.

    Tokens whose entry is not complete wait as the projections kv and gate [batch, waiting, each]; where entries overlap
    the last complete one's tokens stay as before_kv and before_gate [batch, 1, rate, width], laid out from the start.
    room: how many entries there is room for from the start; None: they grow.
    """

    def __init__(self, rate: int, room: int | None = None) -> None:
        super().__init__()
        self.rate, self.room = rate, room

    def with_waiting(self, kv: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
        """The projections of new tokens [batch, seq, each], those that waited before them."""
        old = self.state.get("kv", kv[:, :0]), self.state.get("gate", gate[:, :0])
        return torch.cat([old[0], kv], dim=1), torch.cat([old[1], gate], dim=1)

    def keep(self, first: int, new: Tensor, kv: Tensor, gate: Tensor) -> Tensor:
        """All entries, `new` ones [batch, n, width] behind the first; of kv and gate keep what no entry took."""
        done = new.shape[1] * self.rate
        self.state["kv"], self.state["gate"] = kv[:, done:].clone(), gate[:, done:].clone()
        if self.room is None:
            self.state["entries"] = torch.cat([self.state["entries"], new], dim=1) if "entries" in self.state else new
            return self.state["entries"]
        if first + new.shape[1] > self.room:
            raise ValueError(f"cache: room for {self.room} entries, found {first + new.shape[1]}")
        laid_out = self.state.setdefault("entries", new.new_zeros(len(new), self.room, new.shape[-1]))
        laid_out[:, first : first + new.shape[1]] = new
        return laid_out[:, : first + new.shape[1]]


class Several(LayerCache):
    """Caches of one mixer that grow in different ways, by name."""

    def __init__(self, **parts: LayerCache) -> None:
        super().__init__()
        self.parts = parts

    def reorder(self, rows: Tensor) -> None:
        for part in self.parts.values():
            part.reorder(rows)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts.values())


@dataclass
class Cache:
    """Everything one batch of sequences keeps.

    mixers, cross: one entry a layer, None where the layer keeps nothing. length: tokens of each sequence seen so far,
    padding included. keep: [batch, length], False at padding; None where there is none. source_keep: the same of the
    encoder's input.
    """

    mixers: Sequence[LayerCache | None]
    cross: Sequence[LayerCache | None]
    length: int = 0
    keep: Tensor | None = None
    source_keep: Tensor | None = field(default=None)

    @property
    def layers(self) -> list[LayerCache]:
        return [layer for layer in (*self.mixers, *self.cross) if layer is not None]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors that are kept."""
        return sum(layer.nbytes for layer in self.layers)

    def reorder(self, rows: Tensor) -> None:
        """As LayerCache.reorder, in every layer."""
        for layer in self.layers:
            layer.reorder(rows)
        if self.keep is not None:
            self.keep = self.keep.index_select(0, rows)
        if self.source_keep is not None:
            self.source_keep = self.source_keep.index_select(0, rows)


def _length(new: dict[str, Tensor]) -> int:
    return next(iter(new.values())).shape[-2]
