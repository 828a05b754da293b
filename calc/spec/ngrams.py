"""Vectors of the last few tokens together, looked up by a hash and added to residual streams."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node


class NGrams(Node):
    """Hashed n-grams of tokens (Qwen4's per-layer embedding: transformers 5.23,
    models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextPLELayer).

    Of each length from 2 to n, as many heads look up the tokens that end at this one, all in one table of `rows`
    vectors; side by side they are d_ngram wide. Two matrices make of them a key for each residual stream and a value
    for all; the root of the size of the products of keys and normed streams, with their sign, opens the value to each
    stream. To the streams is added what that gives, and what a causal convolution of d_conv taps, n tokens apart, makes
    of its norm.
    heads: rows of each head's part of the table. multipliers: what the number of a token so many places back is
    multiplied with before all are joined bit by bit. end: the token that ends a text, which no n-gram crosses.
    """

    symbols: ClassVar[dict[str, str]] = {"rows": "n_ngram_rows", "d_conv": "n_ngram_taps"}
    rows: Dim
    d_ngram: Dim
    d_conv: Dim = 4
    n: int = Field(default=3, ge=2, le=64)
    heads: tuple[int, ...] = Field(min_length=1, max_length=2**10)
    multipliers: tuple[int, ...]
    end: int = Field(ge=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.heads) % (self.n - 1) or self.d_ngram % len(self.heads):
            raise Refused("heads", f"as many of each length up to n = {self.n}, dividing d_ngram", len(self.heads))
        if sum(self.heads) > self.rows or min(self.heads) < 1:
            raise Refused("heads", f"parts of a table of {self.rows} rows", sum(self.heads))
        if len(self.multipliers) != self.n:
            raise Refused("multipliers", f"one for each of n = {self.n} tokens", len(self.multipliers))
        return self
