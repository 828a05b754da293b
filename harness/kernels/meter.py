"""Counting what a tiled kernel moves and computes, while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Meter:
    """What has been counted so far; one may be handed to several kernels.

    read, written: bytes between main memory and the chip. flops: of matrix products, a multiply-accumulate as 2.
    exponentials: evaluations of exp. sram: the most bytes of one tile's tensors that were on the chip at once.
    Tiles of several sequences and heads are worked off in one operation; each is a tile of its own on the chip.
    """

    read: int = 0
    written: int = 0
    flops: int = 0
    exponentials: int = 0
    sram: int = 0

    @property
    def traffic(self) -> int:
        """Bytes both ways."""
        return self.read + self.written

    def load(self, tensor: Tensor) -> Tensor:
        """A tile that comes from main memory."""
        self.read += tensor.nbytes
        return tensor

    def store(self, memory: Tensor, tile: Tensor) -> None:
        """A tile that goes to the place `memory` in main memory, in that one's format."""
        memory.copy_(tile)
        self.written += memory.nbytes

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """a @ b, summed in fp32 or, of fp64, in fp64."""
        self.flops += 2 * a.numel() * b.shape[-1]
        return wide(a) @ wide(b)

    def exp(self, x: Tensor) -> Tensor:
        """e to the x."""
        self.exponentials += x.numel()
        return x.exp()

    def on_chip(self, *tensors: Tensor) -> None:
        """These tensors, [sequences, key heads, ...], are on the chip together."""
        self.sram = max(self.sram, sum(tensor[0, 0].nbytes for tensor in tensors))


def wide(tensor: Tensor) -> Tensor:
    """`tensor` in the format that sums are kept in: fp32, or fp64 for fp64."""
    return tensor if tensor.itemsize >= 4 else tensor.float()
