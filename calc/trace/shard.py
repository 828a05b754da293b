"""How tensor parallelism divides a weight, as Megatron-LM does (Shoeybi et al. 2019, arXiv:1909.08053, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from calc.sizes import Size, ceil_div, exact_div, is_exactly, minimum
from calc.trace.tensor import Split


@dataclass(frozen=True, slots=True)
class Shard:
    """A matrix [out, in] over tensor-parallel ranks.

    axis: 0 divides its rows, and a bias with them; 1 its columns, and every rank has the whole bias. kv_rows: of the
    rows, those that belong to heads of keys and values, of which there are kv_heads: ranks beyond that number share
    them. split: how what comes out of the product is divided; with `kv` all rows are of such heads.
    """

    axis: int
    split: Split
    kv_rows: Size = 0
    kv_heads: Size = 1

    @property
    def fused(self) -> bool:
        """Whether some of its rows, and not all, belong to heads of keys and values."""
        return not is_exactly(self.kv_rows, 0)

    def held(self, rows: Size, tp: Size) -> Size:
        """Of `rows` rows (with axis 1, columns) those of the rank that holds the most."""
        if self.split == "kv":
            return ceil_div(rows, minimum(tp, self.kv_heads))
        if not self.fused:
            return ceil_div(rows, tp)
        return ceil_div(rows - self.kv_rows, tp) + ceil_div(self.kv_rows, minimum(tp, self.kv_heads))

    def elements(self, shape: tuple[Size, ...], tp: Size) -> Size:
        """Elements of a weight of that shape, or of its bias, on one rank."""
        rows, *columns = shape
        if self.axis == 1:
            return rows * self.held(columns[0], tp) if columns else rows
        held = self.held(rows, tp)
        for axis in columns:
            held = held * axis
        return held

    def part(self, amount: Size, shape: tuple[Size, ...], tp: Size) -> Size:
        """Of an amount spread evenly over a matrix of that shape, what one rank has."""
        along = shape[self.axis]
        return exact_div(amount, along) * self.held(along, tp)


COLUMN = Shard(0, "tensor")
"""By rows of [out, in]: the first matrices of a block."""
ROW = Shard(1, "stream")
"""By columns: the last matrix of a block, whose results are summed over ranks."""
PARTIAL = Shard(1, "none")
"""By columns, of a matrix amid a block: every rank reads all of the sums (Mamba's step sizes, B and C)."""
VOCABULARY = Shard(0, "vocab")
"""By rows of the vocabulary: the token table and the head."""


def key_value(heads: Size) -> Shard:
    """A projection to keys or to values of so many heads."""
    return Shard(0, "kv", kv_heads=heads)


def fused(heads: Size, rows: Size) -> Shard:
    """A projection to queries, keys and values, of whose rows so many are of keys and values."""
    return Shard(0, "tensor", rows, heads)
