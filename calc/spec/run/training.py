"""What a step of training does beside going forward and back."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo

from calc.errors import Refused
from calc.sizes import Size
from calc.spec.run.node import MaybePositive, MaybeYesNo, Positive, RunNode, Word, Words, YesNo

Checkpointing = Literal["none", "selective", "selective-op", "full", "full-early-stop"]
CHECKPOINTING: tuple[Checkpointing, ...] = get_args(Checkpointing)
REGIONS = ("attention", "activation", "norm", "mixer", "cross", "channel")
"""What can be computed again by itself, whose results stay. `attention` is the core: scores, softmax, values."""
DISCARDING = ("layernorm", "mla_up_proj", "moe_act")
"""Modules that free their results too, and make them anew before anything going back reads one."""
NOT_DELAYED = frozenset({"layernorm", "moe_act"})
"""Of these, what delayed scaling in fp8 does not go with (transformer_config.py, `__post_init__`)."""
MODULES = ("core_attn", "mlp", "moe", "shared_experts", *DISCARDING)
"""Megatron-Core's `recompute_modules` (core_v0.18.0, megatron/core/transformer/transformer_config.py), which says of
each whether its results stay: attention's core, the dense block, experts with their router, the shared experts, the
norms that are kernels of their own, what makes queries, keys and values of latents, and experts' activations."""
RECOMPUTABLE = (*REGIONS, *MODULES)
Offload = Literal["none", "optimizer", "activations"]
OFFLOADS: tuple[Offload, ...] = get_args(Offload)


def optimizer_names() -> tuple[str, ...]:
    """The names of the optimizers."""
    from calc.spec.run.optimizers import OPTIMIZER_BY_NAME  # most runs name none

    return tuple(OPTIMIZER_BY_NAME)


def _probability(value: Any, info: ValidationInfo) -> float:
    if isinstance(value, int | float) and 0 <= value < 1:
        return value
    raise Refused("dropout", "a probability from 0 on, below 1", value)


def _part(value: Any, info: ValidationInfo) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise Refused("offload_fraction", "a part above 0, up to 1", value)


class Training(RunNode):
    """What backward computes again, how the loss is computed, and what updates the weights.

    recompute: regions, beside what checkpointing says: `attention` (scores, softmax, values), `activation`, `norm`, or
    whole blocks: `mixer`, `cross`, `channel`; and Megatron-Core's modules by their names there.
    precision_aware: whether Megatron-Core's optimizer reads each format as it is kept, whatever it keeps.
    fused_loss: whether one kernel computes the loss and its gradient in the logits' place; None: where elementwise
    kernels are fused. optimizer: None: `Run.usual_optimizer`.
    offload: `optimizer`, moments and what they update stand in the host's memory, whose processors step through them;
    offload_fraction: for which part of the parameters that a rank updates. `activations`, what layers keep waits there
    for its backward: offload_layers, of so many from the first on; None: of all but the last.
    """

    optimizer: Annotated[str | None, PlainValidator(Word(optimizer_names, open=True))] = Field(
        default=None, description="Training: what updates the weights."
    )
    precision_aware: YesNo = Field(
        default=False,
        description="Training: Megatron-Core's precision-aware optimizer, as moments in bf16 ask for by themselves.",
    )
    checkpointing: Annotated[Checkpointing, PlainValidator(Word(lambda: CHECKPOINTING))] = Field(
        default="none", description="Training: which activations are recomputed."
    )
    recompute: Annotated[tuple[str, ...], BeforeValidator(Words(lambda: RECOMPUTABLE))] = Field(
        default=(), description=f"Training: computed again in backward: {', '.join(RECOMPUTABLE)}."
    )
    checkpoint_every: Positive = Field(default=1, description="Training: of so many layers, one is checkpointed.")
    loss_chunks: Positive = Field(default=1, description="Training: pieces in which logits and loss are computed.")
    fused_loss: MaybeYesNo = Field(default=None, description="Training: the loss works in the logits' place.")
    dropout: Annotated[float, PlainValidator(_probability)] = Field(
        default=0.0, description="Training: its probability, wherever the model has it."
    )
    offload: Annotated[Offload, PlainValidator(Word(lambda: OFFLOADS))] = Field(
        default="none",
        description="Training: what the host's memory holds: the optimizer, which it updates, or what layers keep.",
    )
    offload_fraction: Annotated[float, PlainValidator(_part)] = Field(
        default=1.0, description="Training: the part of a rank's parameters that --offload optimizer is of."
    )

    offload_layers: MaybePositive = Field(
        default=None, description="Training: of how many layers, from the first on, --offload activations is."
    )

    @property
    def layers_on_host(self) -> Size | None:
        """Of how many layers, from the first on, activations wait on the host; None where all but the last do, or
        none."""
        return self.offload_layers if self.offload == "activations" else None

    @property
    def again(self) -> frozenset[str]:
        """Regions and modules that are computed again by themselves, attention's core as a region."""
        core = {"attention"} if self.checkpointing == "selective" or "core_attn" in self.recompute else set()
        return frozenset(self.recompute) - {"core_attn"} | core

    @property
    def offloaded(self) -> Fraction:
        """Of the parameters that a rank updates, the part that the host updates."""
        return Fraction(str(self.offload_fraction)) if self.offload == "optimizer" else Fraction(0)
