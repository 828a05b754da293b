"""Attention to blocks of a text, some of which are drawn, in place of all pairs of a long one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from calc.errors import Refused
from calc.sizes import Size, holds, is_array, is_symbolic
from calc.spec.fields import Node


class SparseBlocks(Node):
    """Texts of more than (5 + 2 * drawn) * block tokens attend to blocks of them (BigBird: Zaheer et al. 2020,
    arXiv:2007.14062, section 2); in shorter ones all tokens see all others.

    Each block of queries sees itself and one on both sides, the first and the last block, and `drawn` others, which
    each head draws for itself; the first and the last see all. Texts have to be whole blocks, which their front sees to
    (`multiple` and `beyond` of Embedding). Source: transformers 5.23, models/big_bird/modeling_big_bird.py.
    """

    block: int = Field(gt=0, le=2**20)
    drawn: int = Field(default=3, ge=0, le=2**16)

    @property
    def longest(self) -> int:
        """Tokens of the longest text that is not divided into blocks."""
        return (5 + 2 * self.drawn) * self.block

    @property
    def unknown(self) -> str | None:
        """Why it is not described what longer texts do, or None where it is."""
        if self.drawn == 0:
            return "transformers cannot run blocks that draw none"
        return "PyTorch multiplies blocks of one token otherwise" if self.block == 1 else None

    def draws(self, tokens: Any, _: Any = None) -> Any:
        """Whether a training on texts of so many tokens, or columns of them, finds enough blocks to draw from: of 3,072
        and 4,096, as they are filled up, the third row of blocks has those of the first 1,024 tokens less four, of
        which one serves for all (`_bigbird_block_rand_mask`, which fails otherwise)."""
        filled = -(-tokens // self.block) * self.block
        found = max(1024 // self.block - 4, 0)
        return (filled != 3072) & (filled != 4096) | (self.block >= 512 or found >= self.drawn or found == 1)


def beyond(tokens: Size, longest: int) -> bool:
    """Whether texts of so many tokens are longer than that; a formula is taken to be of shorter ones.

    Errors: Refused for a column of some that are and others that are not.
    """
    if is_symbolic(tokens):
        return False
    longer = tokens > longest
    if holds(longer) and is_array(longer) and not longer.all():
        raise Refused("seq", f"texts that are all of at most {longest} tokens, or all longer, in one column", "both")
    return holds(longer)


def blocks_attended(layers: Iterable[Any], tokens: Size) -> SparseBlocks | None:
    """How texts of so many tokens attend to blocks, where they are long enough for a mixer of these groups of layers.

    Errors: as `beyond`.
    """
    mixers = (mixer for group in layers for mixer in group.mixers)
    found = (sparse for mixer in mixers if (sparse := getattr(mixer, "sparse", None)) is not None)
    return next((sparse for sparse in found if beyond(tokens, sparse.longest)), None)
