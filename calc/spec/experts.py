"""A mixture of experts in place of one channel mixer."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.sizes import Size, quotient
from calc.spec.channels import Activation, GateClamp
from calc.spec.deep_router import DeepRouter
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class ExpertGroups(Node):
    """A token's experts are chosen within the best `chosen` of `count` equal groups (DeepSeek-V2, section 2.2.2).

    by: what a group is worth: the score of its `best` expert (DeepSeek-V2) or the sum of its `two` best (DeepSeek-V3).
    """

    count: int = Field(gt=1, le=2**16)
    chosen: int = Field(gt=0, le=2**16)
    by: Literal["best", "two"] = "two"


class Moe(Node):
    """A mixture of experts (Shazeer et al. 2017): a router sends each token to `top_k` of `n_experts` MLPs.

    d_expert: the width of one routed expert. d_shared: the width of all shared experts together, which every token
    visits (None: there are none). shared_gate: a learned sigmoid scales the shared experts' output (Qwen2-MoE).
    scaled_router: the router reads x, normed without weights, times a learned vector, and each expert's weight is
    multiplied with a learned number. dense_norm: the shared experts are one MLP beside the routed half; each half has
    this norm behind it, and the routed one, which reads the residual stream, also before it (both Gemma 4).
    d_latent: the routed experts read and give vectors of this width, with a projection down before and one up behind
    all of them (Nemotron 3); None means d_model.
    capacity_factor: each expert has room for capacity_factor * tokens * top_k / n_experts tokens, rounded up; what
    comes after is dropped, and room that stays empty is computed all the same (Fedus et al. 2021, section 2.2). None:
    no limit.
    clamp, as_weight: as in Mlp; shared_clamp: the shared experts' clamp, True for the same, False for none (Hy4).
    bias: on all experts' matrices; shared_bias: on those of the shared ones, None means as bias (Step 3.5).
    weigh: whether an expert's weight scales its result or what it reads (Llama 4).
    scoring: how router logits become weights; `sparsemixer`: a softmax over those logits that lie within 2 * tolerance
    of the best one, for the first expert, then of the best of the others, for the second (Phi-3.5-MoE,
    arXiv:2409.12136, as it runs without training). renormalize: the top_k weights of a token are divided by their sum.
    scale: what the routed experts' sum is multiplied with. groups: as in ExpertGroups. correction: a number for each
    expert is added to the scores to choose by, not to weigh by (DeepSeek-V3, section 2.1.2); a buffer, no parameter.
    corrected: what it is added to; `logits`: ahead of the scores, which alone weigh (Kolibri 1).
    frozen_correction: it is a parameter that no gradient reaches, and is counted as one (ERNIE 4.5).
    sum_bias: a learned vector is added to what the routed experts give together (JetMoE).
    jitter: in training the tokens are multiplied, ahead of the router, with random numbers up to so far from 1, another
    for each value of each token, `jitters` times (Switch Transformers: 0.01; Phi-3.5-MoE: twice).
    wide_router: the router's matrix is in float32 whatever the model is in, and reads such a copy (Switch Transformers'
    "selective precision", section 2.4). masked: weights are taken by masks of ones and zeros for all experts, not by
    the numbers of the chosen, and no sum of them is below the smallest step of their format (NLLB-MoE).
    balanced: in training a softmax of its logits, in their number format (`stream`) or in float32, is held to even
    shares, beside the loss (Fedus et al. 2021, section 2.2; `output_router_logits` of transformers). None: not.
    deep_router: as it says there; None: a router is one matrix. skips: beside the experts a token may choose none of
    them; it then visits the first, and its result counts nothing (ZAYA1).
    by_token: a table, a buffer too, says which experts each token of the vocabulary visits; scores only weigh them (the
    first layers of DeepSeek-V4; Roller et al. 2021, arXiv:2106.04426).
    n_zero: so many experts more, among which the router chooses too, give back what they read. Of a token's top_k
    visits top_k * n_experts / (n_experts + n_zero) are to others, as where all are as likely: a whole number.
    late: what the routed experts give is added behind the next layer, and the shared ones are one MLP whose result is
    added here (both LongCat-Flash: Meituan 2025, arXiv:2509.01322, section 2; Cai et al. 2024, arXiv:2404.05019).
    """

    kind: Literal["moe"] = "moe"
    n_experts: Dim
    n_zero: Dim | None = None
    top_k: Dim
    d_expert: Dim
    d_shared: Dim | None = None
    d_latent: Dim | None = None
    shared_gate: bool = False
    gated: bool = True
    bias: bool = False
    shared_bias: bool | None = None
    router_bias: bool = False
    scaled_router: bool = False
    dense_norm: Norm | None = None
    activation: Activation = "silu"
    clamp: GateClamp | None = None
    as_weight: bool = False
    shared_clamp: bool | GateClamp = True
    weigh: Literal["result", "input"] = "result"
    capacity_factor: float | None = Field(default=None, gt=0, le=1e6)
    scoring: Literal["softmax", "sigmoid", "sqrt_softplus", "sparsemixer"] = "softmax"
    tolerance: float = Field(default=0.01, ge=0)
    renormalize: bool = True
    scale: float = 1.0
    groups: ExpertGroups | None = None
    correction: bool = False
    corrected: Literal["scores", "logits"] = "scores"
    frozen_correction: bool = False
    by_token: bool = False
    sum_bias: bool = False
    deep_router: DeepRouter | None = None
    skips: bool = False
    late: bool = False
    jitter: float | None = Field(default=None, ge=0)
    jitters: Literal[1, 2] = 1
    wide_router: bool = False
    masked: bool = False
    balanced: Literal["stream", "fp32"] | None = None

    @property
    def routes(self) -> Size:
        """What a router chooses among."""
        return self.n_experts + int(self.skips) + (0 if self.n_zero is None else self.n_zero)

    @property
    def visits(self) -> Size:
        """Of the top_k experts that a token visits, those that compute."""
        return self.top_k if self.n_zero is None else quotient(self.top_k * self.n_experts, self.routes)

    @model_validator(mode="after")
    def _deeply_routed(self) -> Self:
        plain = ("scaled_router", "router_bias", "by_token", "groups", "frozen_correction", "dense_norm")
        others = [name for name in plain if getattr(self, name)]
        others += ["scoring"] if self.scoring != "softmax" or self.corrected == "logits" else []
        if others and (self.deep_router is not None or self.skips):
            field = "skips" if self.deep_router is None else "deep_router"
            raise Refused(field, f"none beside {others[0]}", getattr(self, field) if field == "skips" else "one")
        if self.skips and (self.top_k != 1 or self.renormalize or self.capacity_factor is not None):
            raise Refused("skips", "false, unless tokens choose one expert by its score as it is, without limit", True)
        return self

    @property
    def own_clamp(self) -> GateClamp | None:
        """What cuts the shared experts."""
        return self.clamp if self.shared_clamp is True else self.shared_clamp or None

    @model_validator(mode="after")
    def _routing(self) -> Self:
        if self.top_k > self.routes:
            raise Refused("top_k", f"at most n_experts = {self.routes}", self.top_k)
        if self.groups is not None and (self.n_experts % self.groups.count or self.groups.chosen >= self.groups.count):
            raise Refused("groups", f"a divisor of n_experts = {self.n_experts}, and fewer chosen", self.groups.count)
        if self.by_token and (self.groups is not None or self.correction or self.scoring == "sparsemixer"):
            raise Refused("by_token", "false where scores choose (groups, correction, sparsemixer)", True)
        if self.corrected == "logits" and (not self.correction or self.groups is not None):
            raise Refused("corrected", "scores without a correction, or where groups of experts are chosen", "logits")
        if self.masked and (self.scoring != "softmax" or not self.renormalize or self.scaled_router):
            raise Refused("masked", "false, unless shares of a softmax are divided by their sum", True)
        if self.wide_router and self.deep_router is not None:
            raise Refused("wide_router", "false beside a router of several layers (deep_router)", True)
        if self.frozen_correction and not self.correction:
            raise Refused("frozen_correction", "false without a correction", True)
        if self.scoring == "sparsemixer" and self.top_k != 2:
            raise Refused("top_k", "2 beside sparsemixer, which picks a first and a second expert", self.top_k)
        if self.shared_gate and self.d_shared is None:
            raise Refused("shared_gate", "false without shared experts (d_shared)", True)
        cuts = [each for each in (self.clamp, self.own_clamp) if each is not None]
        if self.activation != "silu" and any(each.activated for each in cuts):
            raise Refused("activation", "silu, where what it gives is cut", self.activation)
        if self.shared_bias is not None and (self.d_shared is None or self.dense_norm is not None):
            raise Refused("shared_bias", "null, but for shared experts (d_shared) beside the others", self.shared_bias)
        if self.dense_norm is not None and (self.d_shared is None or self.shared_gate):
            raise Refused("dense_norm", "null, but for an ungated MLP beside the experts (d_shared)", "a norm")
        if self.late and (self.d_shared is None or self.shared_gate or self.dense_norm is not None):
            raise Refused("late", "false, but beside an ungated MLP whose result is not late (d_shared)", True)
        return self

    @model_validator(mode="after")
    def _with_zeros(self) -> Self:
        if self.n_zero is None:
            return self
        alone = ("capacity_factor", "groups", "by_token", "d_latent", "scaled_router", "sum_bias", "frozen_correction")
        alone += ("deep_router", "skips")
        if others := [name for name in alone if getattr(self, name)]:
            raise Refused("n_zero", f"null beside {others[0]}", self.n_zero)
        if self.weigh == "input" or self.scoring == "sparsemixer":
            raise Refused("n_zero", "null, unless scores weigh results", self.n_zero)
        if self.top_k * self.n_experts % self.routes:
            expected = (
                f"so many that of {self.top_k} visits a whole number meets the {self.n_experts} experts that compute"
            )
            raise Refused("n_zero", expected, self.n_zero)
        return self
