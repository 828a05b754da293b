"""How a checkpoint is published: which of its matrices are packed, in which format, and what the rest is in."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Node

Whole = int | None


class Packed(Node):
    """The format of a matrix [rows, columns] as it lies in a file: elements, and what stands beside them.

    name: what it is called. bits: of one element. word: elements fill words of so many bits, `along` a row's columns,
    a column's rows (AWQ), or the whole matrix laid out flat; crossing: an element may lie in two words (3-bit GPTQ).
    block_rows, block_columns: elements of so many rows and columns share a scale of scale_bits; None: of all. flat: so
    many neighbours of the matrix laid out flat share one, whatever the blocks say (bitsandbytes, HQQ).
    zeros: zero points beside scales: none, as wide as scales (`plain`), or packed as elements are (`packed`).
    nested: so many scales share a second one in fp32 (bitsandbytes' double quantization).
    column_bits: of what stands beside each column (GPTQ's g_idx). fixed: bytes beside the whole matrix.
    """

    name: str
    bits: int = Field(gt=0, le=32)
    word: Literal[8, 32] = 8
    along: Literal["columns", "rows", "flat"] = "columns"
    crossing: bool = False
    block_rows: Whole = Field(default=1, gt=0)
    block_columns: Whole = Field(default=None, gt=0)
    flat: Whole = Field(default=None, gt=0)
    scale_bits: int = Field(default=0, ge=0, le=32)
    zeros: Literal["none", "plain", "packed"] = "none"
    nested: Whole = Field(default=None, gt=0)
    column_bits: int = Field(default=0, ge=0, le=64)
    fixed: int = Field(default=0, ge=0, le=2**16)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.bits > self.word:
            raise Refused("bits", f"at most the {self.word} of a word", self.bits)
        return self


class Rule(Node):
    """Matrices whose module's name fits one of `names`, or all of them where there is none, are `packed`."""

    names: tuple[str, ...] = ()
    packed: Packed


class Shipped(Node):
    """method: what the config calls it. rules: the first that fits a matrix is its format. skips: patterns of names of
    modules that are left as they are. reach: which matrices are packed at all: those of layers, the head too, or those
    of routed experts alone (MXFP4 as gpt-oss has it). rest: bits of a number of every other tensor.

    Patterns are those of Hugging Face's names of modules; see `calc.quantities.module_names`.
    """

    method: str
    rules: tuple[Rule, ...] = Field(min_length=1)
    skips: tuple[str, ...] = ()
    reach: Literal["layers", "head", "experts"] = "layers"
    rest: Literal[16, 32] = 16
