"""The short way to describe a model: the handful of sizes that people quote, expanded to a full ModelSpec."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.attention import Attention
from calc.spec.channels import Activation, Mlp
from calc.spec.experts import Moe
from calc.spec.fields import Count, Dim, Node
from calc.spec.fronts import Embedding
from calc.spec.heads import Head
from calc.spec.layers import LayerGroup, Placement
from calc.spec.model import Adapter, ModelSpec
from calc.spec.norm import Norm


class Shorthand(Node):
    """A GPT-style model of equal layers. Left as they are, the defaults describe GPT-2's block.

    n_experts makes every layer a mixture of experts, and needs top_k and d_expert.
    position = "learned" needs max_seq_len, the rows of its table.
    """

    name: str = Field(default="model", pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,200}$")
    d_model: Dim
    n_layers: Count
    n_heads: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_ff: Dim | None = None
    vocab_size: Dim
    max_seq_len: int | None = Field(default=None, gt=0, le=2**31)
    gated: bool = False
    bias: bool = True
    activation: Activation = "gelu"
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    placement: Placement = "pre"
    position: Literal["learned", "sinusoidal", "rope", "alibi", "none"] = "learned"
    window: Dim | None = None
    tied: bool = True
    n_experts: Dim | None = None
    top_k: Dim | None = None
    d_expert: Dim | None = None
    d_shared: Dim | None = None
    adapter: Adapter | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.position == "learned" and self.max_seq_len is None:
            raise Refused("max_seq_len", "the rows of the learned position table", None)
        for name in ("top_k", "d_expert"):
            if (getattr(self, name) is None) != (self.n_experts is None):
                raise Refused(name, "n_experts, top_k and d_expert together or none of them", getattr(self, name))
        if self.d_shared is not None and self.n_experts is None:
            raise Refused("d_shared", "n_experts beside it", None)
        if self.n_experts is not None and self.d_ff is not None:
            raise Refused("d_ff", "d_expert instead, in a mixture of experts", self.d_ff)
        return self

    def expand(self) -> ModelSpec:
        """The full description."""
        norm = Norm(kind=self.norm, bias=self.bias and self.norm == "layernorm")
        mixer = Attention(
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads,
            d_head=self.d_head,
            qkv_bias=self.bias,
            out_bias=self.bias,
            window=self.window,
            position=self.position if self.position in ("rope", "alibi") else "none",
        )
        group = LayerGroup(
            count=self.n_layers, mixer=mixer, channel=self._channel(), norm=norm, placement=self.placement
        )
        return ModelSpec(
            name=self.name,
            d_model=self.d_model,
            vocab_size=self.vocab_size,
            max_seq_len=self.max_seq_len,
            embedding=Embedding(
                n_positions=self.max_seq_len if self.position == "learned" else None,
                sinusoidal=self.position == "sinusoidal",
            ),
            layers=(group,),
            final_norm=norm,
            head=Head(tied=self.tied),
            adapter=self.adapter,
        )

    def _channel(self) -> Mlp | Moe:
        if self.n_experts is None or self.top_k is None or self.d_expert is None:
            return Mlp(d_ff=self.d_ff, gated=self.gated, bias=self.bias, activation=self.activation)
        return Moe(
            n_experts=self.n_experts,
            top_k=self.top_k,
            d_expert=self.d_expert,
            d_shared=self.d_shared,
            gated=self.gated,
            bias=self.bias,
            activation=self.activation,
        )
