"""Attention over keys and values that are kept as one small latent vector a token."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.sizes import Size
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm
from calc.spec.positions import Temperature
from calc.spec.rope import Rope


class Indexer(Node):
    """Scores every earlier token with small heads of its own, to choose those that attention reads.

    DeepSeek-V3.2 (DeepSeek-AI 2025, arXiv:2512.02556, section 2.1, the lightning indexer): `n_heads` queries of width
    `d_head` from the query latent, one key of that width a token, a learned weight a head from the token itself.
    norm: on its keys. interleaved: which of its values rotary positions pair, as in Rope (GLM-5; DeepSeek-V3.2 not).
    last: the last of a head's values turn, not the first (Hy4). q_norm: queries come from what the layer reads, through
    this norm, in place of a query latent; head_temperature: as in Mla (both Mistral Large 4).
    """

    symbols: ClassVar[dict[str, str]] = {"n_heads": "n_index_heads", "d_head": "d_index"}
    n_heads: Dim
    d_head: Dim
    norm: Norm = Norm(kind="layernorm", bias=True, eps=1e-6)
    interleaved: bool = False
    last: bool = False
    q_norm: Norm | None = None
    head_temperature: bool = False


class Mla(Node):
    """Multi-head latent attention (DeepSeek-V2: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1).

    kv_rank: width of the latent that holds a token's keys and values, which is what the cache keeps, beside the one
    rotary key of width d_rope that all heads share. q_rank: width of the latent that queries come from; None: they are
    projected directly. d_nope: width of a head's query and key without positions. d_value: width of a value head.
    bias: on the projections to both latents and on the output's. norm: on both latents.
    top_k: each token attends to so many others at most, those that `indexer` chooses, or where a layer has none of its
    own, those that the last layer with one chose (GLM-5.2). None: to all.
    pool: tokens are chosen in whole pools of so many, which follow one another from a sequence's first token, and each
    token sees those of its own incomplete pool besides; of the keys of a pool, weighted by the tokens themselves and a
    learned number for each place, the indexer makes one (GLM-5.3). None: one by one.
    scale: what scores are multiplied with; None means 1 / sqrt(d_nope + d_rope).
    q_scale, latent_scale: what queries, and latents behind their norm, are multiplied with (LongCat-Flash).
    temperature: as in Attention (Mistral 4). head_temperature: queries grow with their position p as each head has
    learned to: times scale * ln(1 + p) + bias (Mistral Large 4).
    head_gate: a projection of its own makes one number a head, whose sigmoid in fp32 scales its result (Ling 3).
    gate: a projection of its own makes a number for each value, whose sigmoid scales it. sinks, softmax: as in
    Attention (Hy4).
    position: `none`: nothing turns, and the widths called d_rope are the part of a key that heads share (Kimi Linear);
    d_rope None beside it: they share none (Mistral Large 4, GLM-5.3).
    kv: whose latents and shared keys are read. `own`; `earlier`: those of the last layer of this position that has its
    own, so that none are projected or cached (Mistral Large 4).
    """

    symbols: ClassVar[dict[str, str]] = {"top_k": "index_top_k", "pool": "index_pool"}
    kind: Literal["mla"] = "mla"
    n_heads: Dim
    q_rank: Dim | None = None
    kv_rank: Dim
    d_nope: Dim
    d_rope: Dim | None
    d_value: Dim
    bias: bool = False
    norm: Norm = Norm(eps=1e-6)
    top_k: Dim | None = None
    pool: Dim | None = None
    indexer: Indexer | None = None
    position: Literal["rope", "none"] = "rope"
    rope: Rope = Rope(interleaved=True)
    scale: float | None = None
    q_scale: float = 1.0
    latent_scale: float = 1.0
    temperature: Temperature | None = None
    head_temperature: bool = False
    kv: Literal["own", "earlier"] = "own"
    head_gate: bool = False
    gate: bool = False
    sinks: bool = False
    softmax: Literal["fp32", "model"] = "fp32"

    @property
    def d_shared(self) -> Size:
        """Width of the part of a key that heads share."""
        return 0 if self.d_rope is None else self.d_rope

    @model_validator(mode="after")
    def _indexed(self) -> Self:
        if self.position == "rope" and (self.d_rope is None or self.d_rope % 2):
            raise Refused("d_rope", "an even width, since rotary positions turn pairs", self.d_rope)
        if self.pool is not None and (self.top_k is None or self.top_k % self.pool):
            raise Refused("pool", f"a divisor of top_k = {self.top_k}, the tokens that are chosen", self.pool)
        if self.indexer is None:
            return self
        if self.top_k is None or (self.q_rank is None and self.indexer.q_norm is None):
            missing = "top_k" if self.top_k is None else "q_rank"
            raise Refused(missing, "a size beside an indexer, which reads the query latent and chooses top_k", None)
        if self.position == "rope" and self.d_rope is not None and self.indexer.d_head < self.d_rope:
            raise Refused("d_head", f"an indexer's heads at least d_rope = {self.d_rope} wide", self.indexer.d_head)
        return self
