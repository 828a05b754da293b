"""How a step computes, as far as it decides what is kept."""

from __future__ import annotations

from dataclasses import dataclass

from calc.spec.fields import DeviceKind
from calc.spec.run.execution import Kernels


@dataclass(frozen=True, slots=True)
class Settings:
    """How a step computes.

    dtype: of activations, and of weights where they are used. autocast: weights are in fp32, and torch.autocast casts
    to `dtype` what its list of operations reads. inputs: the number format that matrices' inputs are kept in, None for
    `dtype` (fp8). dropout: its probability. device: `cpu` or `cuda`, whose kernels and autocast lists differ.
    recompute: the regions and modules that are computed again in backward.
    loss_fused: whether one kernel computes the loss and its gradient in the logits' place; None: where the execution is
    compiled. joins: whether products that read the same
    keep one narrower copy of it together. weighs_activation: whether routers' weights multiply what experts'
    activations give, and not their results, which are then not kept. frozen_apart: whether an adapter leaves weights in
    another format than its own.
    """

    execution: Kernels = "eager"
    dtype: str = "bf16"
    autocast: bool = False
    inputs: str | None = None
    dropout: float = 0.0
    device: DeviceKind = "cuda"
    recompute: frozenset[str] = frozenset()
    loss_fused: bool | None = None
    joins: bool = False
    weighs_activation: bool = False
    frozen_apart: bool = False

    @property
    def stream(self) -> str:
        """The number format of the residual stream: autocast leaves it as wide as the token table."""
        return "fp32" if self.autocast else self.dtype

    @property
    def fused(self) -> bool:
        return self.execution == "compiled"

    @property
    def fuses_loss(self) -> bool:
        return self.fused if self.loss_fused is None else self.loss_fused

    @property
    def autocast_on_gpu(self) -> bool:
        """Whether norms, softmax and powers are cast to fp32: they are on autocast's list for GPUs alone."""
        return self.autocast and self.device == "cuda"
