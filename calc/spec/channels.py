"""Channel mixers: what acts on each token alone."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm

Activation = Literal[
    "gelu",
    "gelu_new",
    "gelu_tanh",
    "gelu_fast",
    "quick_gelu",
    "relu",
    "relu2",
    "relu6",
    "leaky_relu",
    "silu",
    "hardswish",
    "mish",
    "tanh",
    "sigmoid",
]


class GateClamp(Node):
    """A gated block whose halves are cut: gate to at most `limit`, up to [-limit, limit] (gpt-oss, arXiv:2508.10925).

    The gate's activation is then gate * sigmoid(alpha * gate), and `shift` is added to up before they are multiplied.
    limit: None where the kernels that cut run and nothing is cut. activated: the gate is cut behind its activation,
    SiLU (Step 3.5).
    """

    limit: float | None = Field(default=7.0, gt=0)
    alpha: float = 1.0
    shift: float = 0.0
    activated: bool = False

    @model_validator(mode="after")
    def _as_it_is(self) -> Self:
        if self.activated and (self.alpha != 1.0 or self.shift):
            raise Refused("activated", "false where gates are scaled, or halves shifted", True)
        return self


class Mlp(Node):
    """The feed-forward block. d_ff: None means 4 * d_model. gated: act(gate(x)) * up(x) (Shazeer 2020).

    activation: `xielu` has two parameters of its own (Apertus: Huang and Schlag 2024, arXiv:2411.13010).
    bias: on all matrices; down_bias: on the last one, None means as bias (GTE).
    inner_norm: a norm on what the last matrix reads (BitNet: Wang et al. 2023, arXiv:2310.11453).
    clamp: as it says there; `activation` then has no part. dropout: training may drop part of what the second matrix
    reads (T5). gate_scale: what gate(x) is multiplied with ahead of its activation (Falcon-H1).
    as_weight: what the last matrix reads is brought to its weight's format, which under autocast is fp32 (T5).
    sparsity: the share of gate(x) that is cut to zero, as if its numbers were spread normally; the rest is lowered by
    the cut (Gemma 3n).
    shift: what it reads is a learned mix of each token and the one before it, x + mix * (x_before - x) (RWKV-7: Peng et
    al. 2025, arXiv:2503.14456, section 4.2); the last token is then kept. receptance: a projection of a mix of its own,
    whose sigmoid scales what the block gives (RWKV-4: Peng et al. 2023, arXiv:2305.13048, equations 18 to 20).
    """

    kind: Literal["mlp"] = "mlp"
    d_ff: Dim | None = None
    gated: bool = False
    bias: bool = False
    fused: bool = False
    activation: Activation | Literal["xielu"] = "gelu"
    clamp: GateClamp | None = None
    dropout: bool = False
    gate_scale: float = 1.0
    shift: bool = False
    receptance: bool = False
    down_bias: bool | None = None
    inner_norm: Norm | None = None
    sparsity: float = Field(default=0.0, ge=0, lt=1)
    as_weight: bool = False

    @model_validator(mode="after")
    def _fusible(self) -> Self:
        if self.fused and not self.gated:
            raise Refused("fused", "false without a gate to fuse with", True)
        if self.sparsity and (not self.gated or self.fused or self.clamp is not None):
            raise Refused("sparsity", "0 without a gate of its own matrix, or beside a clamp", self.sparsity)
        if self.gated and self.activation == "xielu":
            raise Refused("activation", "another than xielu with a gate", "xielu")
        if self.receptance and not self.shift:
            raise Refused("receptance", "false where no token is mixed with the one before it (shift)", True)
        if self.clamp is not None and not self.gated:
            raise Refused("clamp", "none without a gate", "a clamp")
        if self.clamp is not None and self.clamp.activated and self.activation != "silu":
            raise Refused("activation", "silu, where what it gives is cut", self.activation)
        if self.gate_scale != 1.0 and (not self.gated or self.clamp is not None):
            raise Refused("gate_scale", "1 without a gate, or beside a clamp", self.gate_scale)
        return self
