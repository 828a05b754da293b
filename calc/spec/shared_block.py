"""Attention and a feed-forward block whose weights several layers use, ahead of each layer's own mixer."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.adapters import Lora
from calc.spec.attention import Attention
from calc.spec.channels import Mlp
from calc.spec.fields import Node


class SharedBlock(Node):
    """A transformer's block between the layers of another kind (Zamba: arXiv:2405.16712; Zamba2: arXiv:2411.15242).

    It reads the residual stream and the embedded tokens side by side, 2 * d_model wide, through a norm; then run
    attention, which gives d_model, a norm, the feed-forward block, and a matrix that is each layer's own. Nothing is
    added in between. The result is added to what the layer's mixer reads, and not to the stream.
    adapter: low-rank updates that each layer has for itself; of a layer's group all else is one set of weights.
    number: tells groups apart whose layers take turns with sets of their own.
    """

    attention: Attention
    mlp: Mlp
    adapter: Lora | None = None
    number: int = Field(default=0, ge=0, le=10**4)

    @model_validator(mode="after")
    def _plain(self) -> Self:
        if self.attention.kv != "own" or self.attention.buckets is not None or self.attention.d_head is None:
            raise Refused("attention", "keys and positions of its own, and a d_head", "those of other layers, or none")
        if not self.attention.causal:
            raise Refused("attention.causal", "true, ahead of mixers that read tokens in order", False)
        if self.mlp.shift:
            raise Refused("mlp.shift", "false in a block that several layers use", True)
        return self

    @model_validator(mode="after")
    def _adapted(self) -> Self:
        up = ("gate_up_proj",) if self.mlp.fused else ("gate_proj", "up_proj") if self.mlp.gated else ("up_proj",)
        matrices = {
            *(("qkv_proj",) if self.attention.fused else ("q_proj", "k_proj", "v_proj")),
            "o_proj",
            *up,
            "down_proj",
        }
        if self.adapter is not None and (unknown := sorted(set(self.adapter.targets) - matrices)):
            raise Refused("adapter.targets", f"among {', '.join(sorted(matrices))}", ", ".join(unknown))
        return self
