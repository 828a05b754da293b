"""What a kernel costs: products, exponentials, bytes through main memory, bytes on the chip, bytes kept."""

from __future__ import annotations

from dataclasses import dataclass

from calc.sizes import Size, maximum, quotient


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one call.

    flops: of matrix products as they are executed, a multiply-accumulate as 2. exponentials: evaluations of exp.
    read, written: bytes between main memory (HBM) and the chip (SRAM). sram: bytes on the chip at once, for one tile.
    saved: bytes that stay between forward and backward beside q, k, v and the output. peak: the most bytes that exist
    at once beside q, k, v, the output and their gradients.
    """

    flops: Size
    exponentials: Size
    read: Size
    written: Size
    sram: Size = 0
    saved: Size = 0
    peak: Size = 0

    @property
    def traffic(self) -> Size:
        """Bytes between main memory and the chip, both ways."""
        return self.read + self.written

    @property
    def arithmetic_intensity(self) -> Size:
        """FLOPs a byte."""
        return quotient(self.flops, self.traffic)

    def then(self, other: Cost) -> Cost:
        """This, and `other` after it."""
        return Cost(
            self.flops + other.flops,
            self.exponentials + other.exponentials,
            self.read + other.read,
            self.written + other.written,
            maximum(self.sram, other.sram),
            maximum(self.saved, other.saved),
            maximum(self.peak, other.peak),
        )
