"""A tensor of a recorded forward pass: how large it is and how ranks divide it. Its identity is the storage's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calc.sizes import Size, is_exactly

Split = Literal["none", "stream", "visits", "tensor", "kv", "vocab", "looked up"]
"""What divides a tensor among ranks. `stream`: sequence parallelism, since it is as wide as the residual stream;
`visits`: the same, but where ranks have a part of each expert, whose rows they gather;
`tensor`, `kv`, `vocab`: tensor parallelism, by heads and columns, by heads of keys, by rows of the token table;
`looked up`: nothing, being the numbers of these rows, of which a rank also knows whether it has them."""

Kernel = Literal["sdpa", "compiled"]
"""From which execution on one kernel makes a tensor and reads it, so that no memory ever holds it."""


@dataclass(slots=True, eq=False)
class Tensor:
    """[rows, width] numbers that an op makes or the model is given.

    grad: whether going back needs its gradient: something that it depends on is trained. split: what divides it among
    ranks; heads: into how many shares at most where that is `kv`; grouped: of its numbers, those that are divided into
    so many shares at most though the others are divided as `split` says (keys and values beside queries). base: the
    tensor whose memory this is, where it is a view; viewed: the one that it was made from, perhaps a view itself, or
    what dropout leaves. readers: how many ops have been recorded that read it. inside: the kernel that it does not
    leave, if any. wide: whether it is in fp32, whatever other activations are in.
    """

    rows: Size
    width: Size
    grad: bool = True
    split: Split = "stream"
    heads: Size = 1
    base: Tensor | None = None
    viewed: Tensor | None = None
    readers: int = 0
    inside: Kernel | None = None
    wide: bool = False
    grouped: Size = 0

    @property
    def elements(self) -> Size:
        return self.rows * self.width

    @property
    def storage(self) -> Tensor:
        """The tensor whose memory this is."""
        return self.base or self

    def view(
        self, rows: Size, width: Size, split: Split | None = None, heads: Size | None = None, grouped: Size = 0
    ) -> Tensor:
        """Some or all of its numbers, laid out as [rows, width]; nothing is copied. grouped: of these numbers."""
        heads = self.heads if heads is None else heads
        return Tensor(rows, width, self.grad, split or self.split, heads, self.storage, self, grouped=grouped)

    def columns(self, width: Size, split: Split | None = None, heads: Size | None = None, grouped: Size = 0) -> Tensor:
        """The first, or any other, `width` columns: a view. grouped: of each row's numbers."""
        return self.view(self.rows, width, split, heads, grouped if is_exactly(grouped, 0) else self.rows * grouped)

    def divided_as(self, x: Tensor) -> Tensor:
        """Itself, each of whose rows ranks divide as they divide x's."""
        self.split, self.heads, self.grouped = x.split, x.heads, x.grouped
        return self
