"""How a run is spread over GPUs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PlainValidator, ValidationInfo

from calc import checks
from calc.errors import Refused
from calc.sizes import Size, at_least, exact_div, is_exactly
from calc.spec.run.node import MaybePositive, MaybeYesNo, Positive, RunNode


def _zero(value: Any, info: ValidationInfo) -> Size:
    stage = checks.size("zero", value, 0)
    if isinstance(stage, int) and stage > 3:
        raise Refused("zero", "0, 1, 2 or 3", stage)
    return stage


class Parallelism(RunNode):
    """Ranks of data, tensor, pipeline, context and expert parallelism.

    Experts are spread over the data and context ranks, so ep divides dp * cp. GPUs: dp * tp * pp * cp.
    sequence_parallel: whether what lies between tensor-parallel blocks is divided along the sequence; None: where
    tp is above 1. micro_batches: None: as many as fill the pipeline. stages: None: as even as can be, the earlier ones
    larger.
    """

    dp: Positive = Field(default=1, description="Data-parallel ranks; --batch is of one of them.")
    tp: Positive = Field(default=1, description="Tensor-parallel ranks.")
    pp: Positive = Field(default=1, description="Stages of a pipeline.")
    cp: Positive = Field(default=1, description="Context-parallel ranks.")
    ep: Positive = Field(default=1, description="Ranks that experts are spread over, among those of --dp and --cp.")
    zero: Annotated[Size, PlainValidator(_zero)] = Field(
        default=0, description="Training: data-parallel ranks divide 1 the optimizer, 2 gradients, 3 weights too."
    )
    sequence_parallel: MaybeYesNo = Field(default=None, description="Tensor-parallel ranks divide the residual stream.")
    micro_batches: MaybePositive = Field(default=None, description="Training: passes of one step.")
    interleave: Positive = Field(default=1, description="Training: pieces of its layers that a stage holds.")
    stages: tuple[int, ...] | None = Field(default=None, description="Layers of each stage.")
    network: float | None = Field(default=None, description="Of one GPU to other nodes: 50GB/s or 400Gbps.")

    @property
    def gpus(self) -> Size:
        """How many the whole run takes."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def divides_sequence(self) -> bool:
        """Whether tensor-parallel ranks divide the residual stream."""
        if self.sequence_parallel is not None:
            return self.sequence_parallel
        return not is_exactly(self.tp, 1)

    @property
    def micro_batches_a_step(self) -> Size:
        """Micro-batches of one step of training."""
        return self.pp if self.micro_batches is None else self.micro_batches

    def divides(self, stage: int) -> Size:
        """1 where ZeRO divides what its `stage` does, else 0; there is nothing to divide between one rank."""
        return at_least(self.zero, stage) * at_least(self.dp * self.cp, 2)

    def replicas(self, expert: bool = False) -> Size:
        """Ranks that hold the same weights, between which ZeRO divides them.

        Errors: ArithmeticError where ep does not divide dp * cp (`calc.memory.conditions` says so in better words).
        """
        return exact_div(self.dp * self.cp, self.ep) if expert else self.dp * self.cp

    @property
    def accumulates(self) -> Size:
        """1 where gradients of earlier micro-batches wait while the next one runs, else 0."""
        return at_least(self.micro_batches_a_step, 2)
