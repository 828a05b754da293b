"""DeepSeek-V4's attention: a window of near tokens, and far ones compressed to one entry for several tokens."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm
from calc.spec.rope import Rope


class EntryIndexer(Node):
    """Chooses the `top_k` entries that a token attends to, from scores against entries of its own, `d_head` wide."""

    symbols: ClassVar[dict[str, str]] = {"n_heads": "n_index_heads", "d_head": "d_index", "top_k": "index_top_k"}
    n_heads: Dim
    d_head: Dim
    top_k: Dim


class Compressor(Node):
    """Makes one entry, key and value in one, of each `rate` tokens: their projections, weighed by a learned softmax.

    overlap: an entry also reads the `rate` tokens before, through projections of their own, so that each token has two.
    indexer: what chooses among the entries; None: a token attends to all that are complete.
    """

    symbols: ClassVar[dict[str, str]] = {"rate": "compress_rate"}
    rate: Dim
    overlap: bool = False
    indexer: EntryIndexer | None = None


class CompressedAttention(Node):
    """Attention over the last `window` tokens and compressed entries (DeepSeek-V4: DeepSeek-AI 2026, section 2.3).

    Queries come from a latent of q_rank. One key serves all heads, and is the value too. The heads' results are
    projected in n_out_groups groups to out_rank values each, then together to d_model. sinks: a learned logit a head.
    compressor: None: only the window. With `overlap` and an indexer it is compressed sparse attention, else heavily
    compressed attention. norm: on the query latent, on keys, and without weights on each query.
    rope: turns the last values of queries, keys and entries (an entry by its first token), and of the indexer's as
    many; what attention gives is turned back.
    """

    kind: Literal["compressed_attention"] = "compressed_attention"
    n_heads: Dim
    d_head: Dim
    q_rank: Dim
    window: Dim
    n_out_groups: Dim
    out_rank: Dim
    norm: Norm = Norm(eps=1e-6)
    compressor: Compressor | None = None
    rope: Rope = Rope(interleaved=True)

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        width = self.n_heads * self.d_head
        if width % self.n_out_groups:
            raise Refused("n_out_groups", f"a divisor of n_heads * d_head = {width}", self.n_out_groups)
        return self
