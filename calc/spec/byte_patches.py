"""Bytes in patches: tables that groups of bytes are hashed into, and patches that layers between two others read.

Source: Pagnoni et al. 2024 (arXiv:2412.09871, sections 2 and 3); transformers 5.23, models/blt/modeling_blt.py.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from calc.sizes import Size, ceil_div
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Hashes(Node):
    """To each byte's vector are added those that it and the bytes before it are hashed to, one for each length of a
    group and each function. groups: bytes of a group, the last of which is the byte itself. n_rows: of each table."""

    symbols: ClassVar[dict[str, str]] = {"n_rows": "n_hashes"}
    groups: tuple[int, ...] = Field(min_length=1, max_length=64)
    functions: int = Field(default=1, gt=0, le=64)
    n_rows: Dim

    @property
    def tables(self) -> int:
        """How many there are, one behind another in one."""
        return len(self.groups) * self.functions


class PatchAttention(Node):
    """Attention between the vectors of patches and those of bytes: both pass a norm of their own, a byte and a patch
    meet where the one belongs to the other, and what is read is added to what was there, twice."""

    n_heads: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim
    norm: Norm

    def group(self, outer: str) -> str:
        """Its heads are told from those of the layers that it stands beside."""
        return f"{outer}_patches"

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values, said or not."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads


class Patched(Node):
    """Ahead of layers that read patches: of each the largest values of its bytes, through a matrix that makes `vectors`
    vectors of it, which attend to its bytes and then stand side by side.

    length: bytes of a patch; the first patch is one byte, and the last may be shorter. Where the text itself says where
    patches end, it is their mean.
    d_patch: width of a patch's vector, to which a matrix brings it; None: that of `vectors` vectors, and no matrix.
    """

    symbols: ClassVar[dict[str, str]] = {"length": "bytes_of_patch"}
    length: Dim
    vectors: int = Field(default=2, gt=0, le=1024)
    reader: PatchAttention
    d_patch: Dim | None = None

    def count(self, seq: Size) -> Size:
        """Patches of `seq` bytes."""
        return 1 + ceil_div(seq - 1, self.length)

    def width(self, d_model: Size) -> Size:
        """Of a patch's vector, those of bytes being d_model wide."""
        return self.vectors * d_model if self.d_patch is None else self.d_patch
