"""What an attention kernel is asked for: sizes, masks, format and direction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from calc import checks
from calc.dtypes import byte_count
from calc.errors import Refused
from calc.sizes import Size, exact_div

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
ITEM_BITS = {"fp64": 64, "fp32": 32, "bf16": 16, "fp16": 16}
"""Formats of an attention kernel's inputs -> bits. fp64 is for references; calc's other formats are of weights."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """One call of a kernel: q [batch, heads, seq, d_head], k [batch, kv_heads, keys, d_head], v [.., keys, d_value].

    kv_heads: None: as many as heads; else each serves heads / kv_heads query heads in a row. keys: cached tokens and
    new ones; None: seq. d_value: None: d_head. Query i stands at position i + keys - seq, so that the last query sees
    the last key (bottom-right alignment); with seq > keys the first queries stand before every key.
    causal: a query sees the keys up to its position. window: of those, only the last `window`, its own included; where
    it is not causal, the keys less than `window` away on both sides. lengths: real keys of each sequence, what lies
    behind is padding that nobody sees. A query that sees no key gives zeros and passes no gradient.
    softcap c: scores become c * tanh(score / c). alibi: minus each head's slope times the distance is added then
    (Press et al. 2022). Scores are scaled by 1 / sqrt(d_head) first.
    kv_rank, d_rope: of latent attention, whose cache [batch, 1, keys, kv_rank + d_rope] stands in for k; d_head is then
    d_nope + d_rope. direction: "backward" is forward and backward, with gradients of q, k and v.

    Sizes are ints, symbols or arrays where no mask hides tiles. Errors: Refused.
    """

    batch: Size = 1
    heads: Size = 1
    seq: Size = 1
    d_head: Size = 64
    kv_heads: Size = None
    keys: Size = None
    d_value: Size = None
    causal: bool = False
    window: int | None = None
    softcap: float | None = None
    alibi: bool = False
    lengths: tuple[int, ...] | None = None
    dtype: str = "bf16"
    direction: Direction = "forward"
    kv_rank: Size = None
    d_rope: Size = None

    def __post_init__(self) -> None:
        usual = {"kv_heads": self.heads, "keys": self.seq, "d_value": self.d_head}
        for name, value in usual.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for name in ("batch", "heads", "kv_heads", "seq", "keys", "d_head", "d_value"):
            object.__setattr__(self, name, checks.size(name, getattr(self, name)))
        checks.word("dtype", self.dtype, tuple(ITEM_BITS))
        checks.word("direction", self.direction, DIRECTIONS)
        if type(self.heads) is int and type(self.kv_heads) is int and self.heads % self.kv_heads:
            raise Refused("kv_heads", f"a number that divides the {self.heads} heads", self.kv_heads)
        self._check_masks()

    def _check_masks(self) -> None:
        if self.window is not None:
            checks.size("window", self.window)
        if self.softcap is not None and not self.softcap > 0:
            raise Refused("softcap", "a number above 0", self.softcap)
        if (self.kv_rank is None) != (self.d_rope is None):
            raise Refused("d_rope", "kv_rank and d_rope together, of latent attention", self.d_rope)
        if self.lengths is not None:
            fits = all(type(length) is int and 0 <= length <= self.keys for length in self.lengths)
            if len(self.lengths) != self.batch or not fits:
                raise Refused("lengths", f"{self.batch} whole numbers from 0 to {self.keys}", str(self.lengths))

    @property
    def group(self) -> Size:
        """Query heads that share one key and value head."""
        return exact_div(self.heads, self.kv_heads)

    @property
    def offset(self) -> Size:
        """Position of the first query: tokens already in the cache."""
        return self.keys - self.seq

    @property
    def item(self) -> Size:
        """Bytes of one element of the inputs."""
        return byte_count(1, ITEM_BITS[self.dtype])

    @property
    def wide(self) -> int:
        """Bytes of one element of what sums are kept in: fp32, or fp64 for fp64."""
        return 8 if self.dtype == "fp64" else 4

    @property
    def hides(self) -> bool:
        """Whether any mask hides keys from a query, so that tiles may be skipped."""
        return self.causal or self.window is not None or self.lengths is not None

    @property
    def phase(self) -> str:
        """`prefill` from an empty cache, `decode` of one token, `mixed` for what continues a cache by several."""
        if type(self.seq) is int and self.seq == 1:
            return "decode"
        return "prefill" if self.keys == self.seq else "mixed"

    def going(self, direction: Direction) -> AttentionShape:
        """The same with another direction."""
        return replace(self, direction=direction)
