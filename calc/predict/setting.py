"""What a time is asked for: phase, load, number formats, execution, and how the model is spread over GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from calc import checks
from calc.dtypes import CACHE_DTYPES, Quantized, weight_dtype
from calc.errors import Refused
from calc.memory.plan import Plan
from calc.memory.precision import RECIPE_BY_NAME, Recipe, recipe
from calc.predict.kernel import width_of
from calc.query import CHECKPOINTING, Checkpointing, Kernels

Phase = Literal["forward", "prefill", "decode", "training"]
Execution = Literal["eager", "sdpa", "compiled", "graph"]
PHASES: tuple[Phase, ...] = get_args(Phase)
EXECUTIONS: tuple[Execution, ...] = get_args(Execution)


@dataclass(frozen=True, slots=True)
class Formats:
    """Number formats of one run.

    compute: of matrix products. stream: of norms and residual sums (autocast keeps them in fp32). weights: as kept,
    perhaps quantized; gradients; cache: of keys and values. recipe: of training, None otherwise.
    """

    compute: str
    stream: str
    weights: str
    gradients: str
    cache: str
    recipe: Recipe | None = None

    @property
    def casts(self) -> bool:
        """Whether weights are cast for every step."""
        return self.recipe is not None and self.recipe.weights != self.compute

    @property
    def quantized(self) -> Quantized | None:
        """How matrices are quantized, where they are."""
        kind = weight_dtype(self.weights)
        return kind if isinstance(kind, Quantized) else None


@dataclass(frozen=True, slots=True)
class Setting:
    """One question.

    batch: sequences of one data-parallel rank; in training of one of its micro-batches. seq: new tokens of each.
    context: cached tokens where one more is decoded. dtype: in training a recipe (`calc.memory.precision`), else the
    format of weights. execution: `eager` runs every operation by itself, attention in the open; `sdpa` the same with
    attention in one kernel; `compiled` also runs of elementwise work in one; `graph` as that, replayed from a CUDA
    graph, so that nothing waits for launches. network: bytes/s of one GPU to those of other nodes, one direction.
    source_seq, images: what an encoder and a vision tower read, as in `calc.query.Query`.
    Errors: Refused for unknown words, for what is no whole size, and for plans of which no time is known.
    """

    phase: Phase
    batch: int
    seq: int
    context: int
    dtype: str
    execution: Execution
    checkpointing: Checkpointing
    plan: Plan
    network: float | None = None
    source_seq: int | None = None
    images: int = 0

    def __post_init__(self) -> None:
        checks.word("phase", self.phase, PHASES)
        checks.word("execution", self.execution, EXECUTIONS)
        checks.word("checkpointing", self.checkpointing, CHECKPOINTING)
        for name, least in (("batch", 1), ("seq", 1), ("context", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise Refused(name, f"a whole number from {least} on", value)
        if self.training:
            checks.word("dtype", self.dtype, tuple(RECIPE_BY_NAME))
        elif self.checkpointing != "none":
            raise Refused("checkpointing", f"none in {self.phase}", self.checkpointing)
        else:
            weight_dtype(self.dtype)
        for name in ("dp", "tp", "pp", "cp", "ep", "zero", "interleave", "micro_batches"):
            value = getattr(self.plan, name)
            if value is not None and type(value) is not int:
                raise Refused(name, "a whole number where a time is asked for", value)
        if not self.training and self.plan.pp * self.plan.cp * self.plan.ep > 1:
            raise Refused("plan", f"dp and tp alone in {self.phase}, whose pipelines are not modelled", "pp, cp or ep")

    @property
    def training(self) -> bool:
        """Whether it is a training step."""
        return self.phase == "training"

    @property
    def new(self) -> int:
        """New tokens of one sequence."""
        return 1 if self.phase == "decode" else self.seq

    @property
    def micro_batches(self) -> int:
        """Passes of one step: those of the plan, or as many as fill its pipeline."""
        if not self.training:
            return 1
        return self.plan.pp if self.plan.micro_batches is None else self.plan.micro_batches

    @property
    def tokens(self) -> int:
        """New tokens of a step on all GPUs together."""
        return self.batch * self.new * self.micro_batches * self.plan.dp

    @property
    def formats(self) -> Formats:
        """The number formats that `dtype` stands for."""
        if self.training:
            how = recipe(self.dtype)
            compute = "fp8" if how.inputs == "fp8" else how.compute
            stream = how.weights if how.autocast else how.compute
            return Formats(compute, stream, how.weights, how.gradients, how.compute, how)
        kind = weight_dtype(self.dtype)
        compute = kind.rest if isinstance(kind, Quantized) else self.dtype if kind.bits >= 8 else "bf16"
        stream = compute if width_of(compute) >= 2 else "bf16"
        usual = stream if stream in CACHE_DTYPES else "bf16"
        return Formats(compute, stream, self.dtype, stream, self.plan.cache_dtype or usual)

    @property
    def kernels(self) -> Kernels:
        """Which ops are one kernel, in the words of `calc.quantities.traffic`."""
        return "fused" if self.fuses else "sdpa" if self.execution == "sdpa" else "eager"

    @property
    def fuses(self) -> bool:
        """Whether runs of elementwise work are one kernel."""
        return self.execution in ("compiled", "graph")
