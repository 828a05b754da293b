"""Linear attention: a sum of key-value products in place of a softmax over all keys."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class LinearAttention(Node):
    """Attention with a feature map for a softmax (Katharopoulos et al. 2020, arXiv:2006.16236), plain or lightning.

    d_head: None means d_model / n_heads. fused: query, key and value projections are one matrix.
    feature_map: `elu`, elu(x) + 1 on queries and keys; `silu`, on queries, keys and values.
    decay: each head forgets at a fixed rate. by_depth: more slowly in deeper layers, hardly at all in the last.
    norm: on all heads together, where results are not divided by the sum of their weights. gate: a projection of its
    own whose sigmoid scales the result. chunk: tokens of a causal layer that are worked off as one product; the last
    chunk is as long as what is left.
    Lightning attention (Qin et al. 2024, arXiv:2405.17381) as in MiniMax-01 (arXiv:2501.08313) is fused, silu,
    decaying by depth, normed and gated, with chunks of 256.
    """

    kind: Literal["linear_attention"] = "linear_attention"
    n_heads: Dim
    d_head: Dim | None = None
    causal: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    fused: bool = False
    feature_map: Literal["elu", "silu"] = "elu"
    decay: bool = False
    by_depth: bool = False
    norm: Norm | None = None
    gate: bool = False
    chunk: Dim = 64

    @model_validator(mode="after")
    def _forgets_in_order(self) -> Self:
        if self.decay and not self.causal:
            raise Refused("decay", "false where tokens have no order (causal = false)", True)
        return self
