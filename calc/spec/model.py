"""The description of a model: groups of equal layers, each a mixer and a channel mixer, between embedding and head.

Structure (gated? tied? which window?) is written here and decides which ops exist; sizes decide how large they are.
A size left None follows from the others as its field says, and does so in formulas too.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Count, Dim, Node

Activation = Literal["gelu", "gelu_new", "gelu_tanh", "relu", "relu2", "silu", "quick_gelu", "gelu_fast"]
Placement = Literal["pre", "post", "output", "sandwich", "parallel", "parallel-two-norms"]


class Norm(Node):
    """LayerNorm (Ba et al. 2016) or RMSNorm (Zhang & Sennrich 2019) over a vector.

    affine: False for norms without weights (OLMo). bias: an added vector; RMSNorm has none.
    """

    kind: Literal["layernorm", "rmsnorm"] = "rmsnorm"
    affine: bool = True
    bias: bool = False


class QkNorm(Node):
    """A norm on queries and keys before their product (Dehghani et al. 2023).

    span: what one norm weight covers: `head` one vector of d_head shared by all heads (Qwen3), `heads` a vector of
        d_head for each head (StableLM, Command R), `all` one vector over all heads together (OLMo 2).
    """

    norm: Norm = Norm()
    span: Literal["head", "heads", "all"] = "head"


class Attention(Node):
    """Self-attention: multi-head (Vaswani et al. 2017), multi-query (Shazeer 2019), grouped-query (Ainslie 2023).

    n_kv_heads: None means n_heads. d_head: None means d_model / n_heads.
    window: each token attends to the last `window` tokens, itself included; None means all.
    sinks: a learned logit a head that takes part in the softmax (gpt-oss). softcap: logits pass c * tanh(x / c).
    fused: query, key and value projections are one matrix.
    """

    kind: Literal["attention"] = "attention"
    n_heads: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    fused: bool = False
    qk_norm: QkNorm | None = None
    window: Dim | None = None
    softcap: float | None = None
    sinks: bool = False
    position: Literal["rope", "alibi", "none"] = "rope"

    @model_validator(mode="after")
    def _groups(self) -> Self:
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise Refused("n_kv_heads", f"a divisor of n_heads = {self.n_heads}", self.n_kv_heads)
        return self


class Mlp(Node):
    """The feed-forward block. d_ff: None means 4 * d_model. gated: act(gate(x)) * up(x) (Shazeer 2020)."""

    kind: Literal["mlp"] = "mlp"
    d_ff: Dim | None = None
    gated: bool = False
    bias: bool = False
    fused: bool = False
    activation: Activation = "gelu"


class Moe(Node):
    """A mixture of experts (Shazeer et al. 2017): a router sends each token to `top_k` of `n_experts` MLPs.

    d_expert: the width of one routed expert. d_shared: the width of all shared experts together, which every token
    visits (None: there are none). shared_gate: a learned sigmoid scales the shared experts' output (Qwen2-MoE).
    """

    kind: Literal["moe"] = "moe"
    n_experts: Dim
    top_k: Dim
    d_expert: Dim
    d_shared: Dim | None = None
    shared_gate: bool = False
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    activation: Activation = "silu"

    @model_validator(mode="after")
    def _routing(self) -> Self:
        if self.top_k > self.n_experts:
            raise Refused("top_k", f"at most n_experts = {self.n_experts}", self.top_k)
        return self


class LayerGroup(Node):
    """`count` layers that are alike in structure and size.

    placement: where the norms stand. `pre`: x + f(norm(x)). `post`: norm(x + f(x)). `output`: x + norm(f(x)) (OLMo 2).
    `sandwich`: x + norm(f(norm(x))) (Gemma 2). `parallel`: x + attention(norm(x)) + mlp(norm(x)), one norm for both;
    `parallel-two-norms`: each has its own (GPT-NeoX).
    """

    symbols: ClassVar[dict[str, str]] = {"count": "n_layers"}
    name: str = Field(default="layers", pattern=r"^[a-z][a-z0-9_]*$")
    count: Count
    mixer: Attention
    channel: Mlp | Moe = Field(discriminator="kind")
    norm: Norm = Norm()
    placement: Placement = "pre"

    @property
    def group_name(self) -> str:
        return self.name


class Embedding(Node):
    """Token embedding and what is added to it.

    d_embed: width of the table, projected to d_model by a matrix where it differs; None means d_model (OPT-350m: 512).
    n_positions: rows of a learned position table; None where there is none. sinusoidal: fixed positions are added.
    norm: on the embedded tokens (BLOOM).
    """

    d_embed: Dim | None = None
    n_positions: Dim | None = None
    sinusoidal: bool = False
    norm: Norm | None = None


class Head(Node):
    """The projection to the vocabulary. tied: it shares the token embedding's table (Press & Wolf 2017)."""

    tied: bool = False
    bias: bool = False


class ModelSpec(Node):
    """A whole decoder-only model.

    max_seq_len: the longest context the model is made for, in tokens; None where it has no bound of its own.
    schedule: the group name of each layer in order, where groups interleave; None: groups stand one after another.
    notes: what was assumed while the description was read.
    """

    name: str = "model"
    family: str = "custom"
    d_model: Dim
    vocab_size: Dim
    max_seq_len: int | None = Field(default=None, gt=0, le=2**31)
    embedding: Embedding = Embedding()
    layers: tuple[LayerGroup, ...] = Field(min_length=1)
    schedule: tuple[str, ...] | None = None
    final_norm: Norm | None = Norm()
    head: Head = Head()
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [group.name for group in self.layers]
        if len(set(names)) != len(names):
            raise Refused("layers", "groups with different names", ", ".join(names))
        if self.schedule is not None:
            for group in self.layers:
                if (n := self.schedule.count(group.name)) != group.count:
                    raise Refused("schedule", f"{group.count} layers named {group.name}", n)
            if len(self.schedule) != sum(group.count for group in self.layers):
                raise Refused(
                    "schedule", f"names among {', '.join(names)}", ", ".join(sorted(set(self.schedule) - set(names)))
                )
        for group in self.layers:
            if group.mixer.d_head is None and self.d_model % group.mixer.n_heads:
                raise Refused(
                    "n_heads", f"a divisor of d_model = {self.d_model} (or d_head given)", group.mixer.n_heads
                )
        return self

    @property
    def n_layers(self) -> int:
        return sum(group.count for group in self.layers)
