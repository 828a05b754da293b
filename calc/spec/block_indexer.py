"""An indexer that chooses blocks of tokens for attention over keys and values."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node


class BlockIndexer(Node):
    """Chooses which tokens each query attends to, `rate` neighbours at a time (Qwen4's QSA: transformers 5.23,
    models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextQSAIndexer).

    One projection makes n_heads queries and one key of width d_head of each token; queries and the means of `rate` keys
    pass RMSNorms of one plus a weight and turn as attention's do, a mean as its first token. A block's score is the sum
    of its products that are above zero. Of the blocks that are complete where a query stands it attends to those of the
    `budget` tokens with the highest scores, and to all tokens behind them.
    """

    symbols: ClassVar[dict[str, str]] = {
        "n_heads": "n_index_heads",
        "d_head": "d_index",
        "rate": "compress_rate",
        "budget": "index_top_k",
    }
    n_heads: Dim
    d_head: Dim
    rate: Dim
    budget: Dim
    eps: float = Field(default=1e-6, ge=0)

    @model_validator(mode="after")
    def _whole_blocks(self) -> Self:
        if self.budget % self.rate:
            raise Refused("budget", f"whole blocks of rate = {self.rate} tokens", self.budget)
        return self
