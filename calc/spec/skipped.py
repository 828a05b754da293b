"""Layers that a pass of text alone skips: weights that stand beside it."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from calc.sizes import Size
from calc.spec.fields import Node


class SkippedLayers(Node):
    """Gated layers of cross-attention over pictures, which no text without any runs (Llama 3.2 Vision without its
    tower: arXiv:2407.21783, section 7; transformers 5.23, models/mllama/modeling_mllama.py, MllamaTextModel).

    count: how many. d_ff: width of their gated feed-forward block. n_heads, n_kv_heads, d_head: of queries, and of keys
    and values, which are made of pictures; norms on queries and keys cover a head.
    """

    count: int = Field(gt=0, le=10**5)
    d_ff: int = Field(gt=0, le=2**31)
    n_heads: int = Field(gt=0, le=2**31)
    n_kv_heads: int = Field(gt=0, le=2**31)
    d_head: int = Field(gt=0, le=2**31)

    def weights(self, d_model: Size) -> Iterator[tuple[str, tuple[Size, ...]]]:
        """Path and shape of each."""
        queries, keys = self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        for i in range(self.count):
            for name, d_out in {"q": queries, "k": keys, "v": keys}.items():
                yield f"{i}.cross_attention.{name}_proj.weight", (d_out, d_model)
            yield f"{i}.cross_attention.o_proj.weight", (d_model, queries)
            for name in ("q_norm", "k_norm"):
                yield f"{i}.cross_attention.{name}.weight", (self.d_head,)
            for name in ("gate", "up"):
                yield f"{i}.mlp.{name}_proj.weight", (self.d_ff, d_model)
            yield f"{i}.mlp.down_proj.weight", (d_model, self.d_ff)
            for block in ("cross_attention", "channel"):
                yield f"{i}.{block}_norm.weight", (d_model,)
                yield f"{i}.{block}_gate.weight", (1,)
