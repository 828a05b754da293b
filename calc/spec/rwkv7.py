"""RWKV-7: a delta net whose every part is mixed out of a token and the one before it."""

from __future__ import annotations

from typing import ClassVar, Literal

from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Rwkv7(Node):
    """Time mixing of RWKV-7 (Peng et al. 2025, arXiv:2503.14456, section 4 and appendix F).

    n_heads, d_head: heads; the state of each is d_head * d_head. Decays, learning rates, gates and shares of the first
    layer's values come out of bottlenecks of width decay_rank, rate_rank, gate_rank and value_rank. value_rank: None in
    the layer whose values all later ones mix into theirs. chunk: tokens that are worked off as one product; decays are
    bounded, so that a chunk of 16 needs no rescaling. norm: on each head's result, with weights of its own.
    """

    symbols: ClassVar[dict[str, str]] = {"n_heads": "n_rwkv_heads", "d_head": "d_rwkv_head"}
    kind: Literal["rwkv7"] = "rwkv7"
    n_heads: Dim
    d_head: Dim = 64
    decay_rank: Dim
    rate_rank: Dim
    gate_rank: Dim
    value_rank: Dim | None = None
    chunk: Dim = 16
    norm: Norm = Norm(kind="layernorm", bias=True, eps=64e-5)
