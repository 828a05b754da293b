"""How a run computes: which kernels, on what, and how attention reads what is cached."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, PlainValidator, ValidationInfo

from calc.errors import Refused
from calc.spec.fields import DeviceKind, Graphs
from calc.spec.load import EXPERTS, Experts
from calc.spec.run.node import RunNode, Word

ExecutionName = Literal["eager", "sdpa", "compiled", "graph", "megatron"]
Kernels = Literal["eager", "sdpa", "compiled"]
WindowReading = Literal["tokens", "cache"]
LatentReading = Literal["expanded", "absorbed"]
EXECUTIONS: tuple[ExecutionName, ...] = get_args(ExecutionName)
KERNELS: tuple[Kernels, ...] = get_args(Kernels)
"""By how much one kernel does, the least first."""
GRAPHS: tuple[Graphs, ...] = get_args(Graphs)
DEVICES: tuple[DeviceKind, ...] = get_args(DeviceKind)
WINDOW_READINGS: tuple[WindowReading, ...] = get_args(WindowReading)
LATENT_READINGS: tuple[LatentReading, ...] = get_args(LatentReading)


def _stack(value: Any, info: ValidationInfo) -> Any:
    """A Stack, or None."""
    if value is None:
        return None
    from calc.spec.stack import Stack, load_stack, stack_names  # most runs name none

    if isinstance(value, str):
        return load_stack(value)
    if isinstance(value, Stack):
        return value
    raise Refused("stack", f"one of {', '.join(stack_names())}", value)


class Execution(RunNode):
    """Which kernels run, and so what moves, what is kept and what is launched.

    execution: `eager`, each operator by itself and attention in the open; `sdpa`, the same with attention in one
    kernel; `compiled`, runs of elementwise operators in one too; `graph`, as that, replayed from a CUDA graph;
    `megatron`, no kernels but the closed form of Korthikanti et al. for memory. None: what each answer takes unless it
    is told: `compiled` where bytes moved are counted, the least that they can be, and `sdpa` where memory and time are.
    graphs: which kernels of a training step CUDA graphs launch, so that they do not wait for a host: of `routers`, what
    chooses experts, and shared ones (Megatron-Core's scopes moe_router and moe_preprocess); `attention`, those and all
    of a layer but its dense block or experts (attn and mamba); the whole `step` (full_iteration). None: as the stack
    has it.
    device: masks and casts of training differ, and in 16 bits what a softmax takes.
    window_reading: `tokens`, a window of W holds W tokens; `cache`, W - 1, what a growing cache keeps after prefill.
    latent_reading: how latent attention decodes: `absorbed`, the matrix that makes keys and values is applied to the
    new token, as engines do; `expanded`, those of all cached tokens are made again, as transformers does. None:
    absorbed, unless FLOPs are counted by a convention that was named.
    experts: as transformers' `experts_implementation` has them: `grouped` (grouped_mm; what kernels do), `loop` (its
    eager), `batched` (batched_mm), which copies an expert's matrices for every visit, and trains with all the copies.
    """

    execution: Annotated[ExecutionName | None, PlainValidator(Word(lambda: EXECUTIONS, open=True))] = Field(
        default=None,
        description="Which kernels run: each operator's own (eager), attention's in one (sdpa), runs of elementwise "
        "operators in one too (compiled), all from a CUDA graph (graph).",
    )
    stack: Annotated[Any, PlainValidator(_stack)] = Field(
        default=None, description="Training: the framework whose fusions, overlap and overhead a step has."
    )
    graphs: Annotated[Graphs | None, PlainValidator(Word(lambda: GRAPHS, open=True))] = Field(
        default=None,
        description="Training: what CUDA graphs launch: nothing, what routes tokens, attention too, or the whole step.",
    )
    device: Annotated[DeviceKind, PlainValidator(Word(lambda: DEVICES))] = Field(
        default="cuda", description="Where it runs, since masks, casts and a softmax in 16 bits differ."
    )
    window_reading: Annotated[WindowReading, PlainValidator(Word(lambda: WINDOW_READINGS))] = Field(
        default="tokens",
        description="A sliding window of W holds W tokens, or W - 1 as a growing cache keeps after prefill.",
    )
    latent_reading: Annotated[LatentReading | None, PlainValidator(Word(lambda: LATENT_READINGS, open=True))] = Field(
        default=None,
        description="Decode with latent attention: expand all cached latents again, or absorb their matrix in queries.",
    )

    experts: Annotated[Experts, PlainValidator(Word(lambda: EXPERTS))] = Field(
        default="grouped",
        description="All experts' products in one kernel (grouped), one expert after another (loop), or each visit "
        "with a copy of its expert's matrices (batched).",
    )

    @property
    def usual_execution(self) -> ExecutionName:
        """The execution whose memory and time are told: attention in one kernel where nothing was said."""
        return self.execution or "sdpa"

    @property
    def recorded_kernels(self) -> Kernels:
        """Which operators are one kernel in a recorded pass, as what it keeps and holds depends on them: a graph
        replays what was compiled, and a closed form records none."""
        usual = self.usual_execution
        if usual in ("compiled", "graph"):
            return "compiled"
        return "eager" if usual == "eager" else "sdpa"

    @property
    def fuses(self) -> bool:
        """Whether runs of elementwise operators are one kernel."""
        return self.usual_execution in ("compiled", "graph")

    @property
    def kernels(self) -> Kernels:
        """Which operators are one kernel where bytes are counted: a graph replays what was compiled.

        Errors: Refused for a closed form, which has no kernels.
        """
        if self.execution == "megatron":
            raise Refused("execution", "one whose kernels are known", self.execution)
        if self.execution is None or self.execution == "graph":
            return "compiled"
        return self.execution
