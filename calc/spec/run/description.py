"""`Run`: everything that a model's own description leaves open, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.sizes import Size, at_least, is_exactly
from calc.spec.fields import Graphs
from calc.spec.load import Load
from calc.spec.model import ModelSpec, check_model
from calc.spec.run.counting import Counting
from calc.spec.run.execution import Execution, ExecutionName
from calc.spec.run.node import RunNode
from calc.spec.run.numerics import Numerics
from calc.spec.run.parallelism import Parallelism
from calc.spec.run.serving import Serving
from calc.spec.run.training import NOT_DELAYED, Training
from calc.spec.run.workload import Workload

if TYPE_CHECKING:
    from calc.spec.run.narrow_weights import NarrowWeights
    from calc.spec.stack import GradientCopy

LOAD_SIZES = ("batch", "seq", "context", "source_seq")
"""Fields that are sizes and may be symbols of a formula."""
PLAN_SIZES = (
    "dp",
    "tp",
    "pp",
    "cp",
    "ep",
    "zero",
    "shard",
    "micro_batches",
    "interleave",
    "checkpoint_every",
    "loss_chunks",
)
"""Fields that are sizes and may be searched for, or be columns of a sweep."""
NODES: tuple[type[RunNode], ...] = (Workload, Numerics, Training, Parallelism, Execution, Serving, Counting)
"""What a Run is made of, in the order in which it is told."""
USUAL_LENGTH = 2048
"""Tokens of a sequence where nobody says how many."""


class Run(Workload, Numerics, Training, Parallelism, Execution, Serving, Counting):
    """One run of a model: every field of its nodes by its one name.

    Errors: Refused for unknown words and for what is no size (see `calc.checks.size`; floats pass, since `solve` looks
    for real roots); TypeError for an unknown field. Integer arrays become float64.
    """

    @model_validator(mode="after")
    def _formats_of_its_stack(self) -> Self:
        """For a general recipe, or none, that which the stack has in its place: here, for whoever asks what."""
        if self.stack is not None:
            object.__setattr__(self, "recipe", self.stack.recipe(self.recipe))
        if self.mode == "training" and (self.gradient_dtype or self.fp8_recipe or self.fp8_param_gather):
            _ = self.precision, self.narrow_weights  # which the recipe may refuse
        return self

    @model_validator(mode="after")
    def _documents_apart(self) -> Self:
        if self.document is not None and self.execution == "eager":
            raise Refused("execution", "sdpa or compiled beside documents, where kernels hide no pairs", "eager")
        if self.document is not None and not is_exactly(self.cp, 1):
            raise Refused("cp", "1 beside documents, whose pairs ranks would share unevenly", self.cp)
        return self

    def load(self, **changes: Any) -> Load:
        """What one forward pass over the batch is given; `changes` are fields of Load."""
        return super().load(**({"experts": self.experts} | changes))

    @property
    def step_tokens(self) -> Size:
        """New tokens of a step on all GPUs together."""
        return self.batch * self.new_tokens * self.passes_a_step * self.dp

    @property
    def passes_a_step(self) -> Size:
        """Passes of one step: its micro-batches where a model is trained, else one."""
        return self.micro_batches_a_step if self.trains else 1

    @property
    def usual_execution(self) -> ExecutionName:
        """The execution whose memory and time are told where none was named: attention in one kernel; an engine that
        serves compiles what it runs, and what a stack compiles that trains is compiled."""
        served = self.engine is not None and self.mode == "inference"
        stacked = self.mode == "training" and self.stack is not None and self.stack.compiled
        return self.execution or ("compiled" if served or stacked else "sdpa")

    @property
    def usual_graphs(self) -> Graphs:
        """What CUDA graphs launch in a step of training: as the run says, else as its stack has it."""
        return self.graphs or ("none" if self.stack is None else self.stack.graphs)

    @property
    def usual_optimizer(self) -> str:
        """What updates the weights where nobody says: AdamW as PyTorch runs it under the recipe."""
        from calc.spec.run.optimizers import usual_optimizer  # most runs train nothing

        return self.optimizer or usual_optimizer(self.recipe)

    @property
    def reads_as_kept(self) -> bool:
        """Whether Megatron-Core's optimizer reads every format as it is kept: where it is asked to, as moments in bf16
        and weights that the host updates ask for."""
        return self.precision_aware or self.usual_optimizer == "adamw-bf16" or self.offload == "optimizer"

    @property
    def aware(self) -> bool:
        """Whether Transformer Engine's optimizer does so, and keeps the wider copy of weights itself: of products in
        fp8 with delayed scaling alone. Of others Megatron-Core keeps it (optimizer_config.py, `__post_init__`)."""
        if self.stack is None or self.stack.gradient_copy != "beside" or self.precision.master is None:
            return False
        return self.reads_as_kept and (self.recipe != "fp8" or self.usual_fp8_recipe == "delayed")

    @property
    def keeps_remainders(self) -> bool:
        """Whether of the wider copy only the half is kept that weights in bf16 lack (store_param_remainders)."""
        return self.aware and not self.fp8_param_gather and self.offload != "optimizer"

    @property
    def gradient_copy(self) -> GradientCopy:
        """Which copy of gradients the optimizer's step makes (`Stack`): none of gradients that are as wide as what it
        updates but where all are laid flat, and none by Megatron-Core's precision-aware optimizer."""
        how = self.precision
        if self.stack is None or how.master is None:
            return "none"
        if self.stack.gradient_copy == "beside" and (
            how.gradients == how.master or self.aware or self.offload == "optimizer"
        ):
            return "none"
        return self.stack.gradient_copy

    @property
    def weights_from(self) -> int:
        """The stage of ZeRO from which ranks keep a part of the weights alone. FSDP's ZeRO-2 keeps no more either: it
        gathers them in forward and divides them again behind backward (fully_shard's reshard_after_forward=False;
        SHARD_GRAD_OP). Weights that are gathered in another format than they are kept in are FSDP's."""
        if self.mode != "training":
            return 3
        return 2 if self.precision.gathered is not None or (self.stack is not None and self.stack.fsdp) else 3

    @property
    def gathers_each_pass(self) -> tuple[Size, Size]:
        """How often a micro-batch has weights gathered that ranks keep parts of, forward and back, each 0 or 1. What of
        `weights_from` is missing there is gathered once a step: all of it by FSDP's ZeRO-2 in a pipeline, whose stages
        stay gathered, and where torch.distributed.pipelining goes back, one pass forward. Its ZeRO-3 divides a stage
        again behind every pass forward and none back, so that of m micro-batches in any order m + 1 passes gather."""
        piped, back = at_least(self.pp, 2), at_least(self.zero, 3)
        stays = piped if self.torch_pipeline else piped * (1 - back)
        return at_least(self.zero, self.weights_from) * (1 - stays), back

    @property
    def torch_pipeline(self) -> bool:
        """Whether stages of a pipeline are torch.distributed.pipelining's: without a stack, and as stacks say."""
        return self.stack is None or self.stack.pipelines == "torch"

    @property
    def waits_for_host(self) -> bool:
        """Whether layers wait for others' activations to leave for the host, as their stack has it."""
        its = None if self.stack is None else self.stack.activations_on_host
        return self.offload == "activations" and its is not None and its.bounded

    @property
    def narrow_weights(self) -> NarrowWeights | None:
        """What matrices take in training whose products are in fewer bits than weights are kept in. Products in fp8
        need them transposed too, but on devices whose products take any layout.

        Errors: Refused for what the recipe or the stack does not go with.
        """
        if self.mode != "training":
            return None
        from calc.spec.run.narrow_weights import narrow_weights  # most runs train nothing

        device = self.device_named
        turned = device is None or device.fp8_block is None
        said = self.fp8_recipe is not None
        its = narrow_weights(self.precision, self.usual_fp8_recipe, said, self.fp8_param_gather, turned)
        if self.stack is None or self.stack.keeps_copies:
            return its
        if said:
            expected = f"none under {self.stack.name}, of which it is not written down what it keeps in fp8"
            raise Refused("fp8_recipe", expected, self.fp8_recipe)
        return None

    @property
    def usual_fp8_recipe(self) -> str:
        """What shares a scale in fp8 where nobody says: under Megatron-Core one matrix, delayed, or of this step where
        modules are made anew that delayed scaling does not go with."""
        usual = "tensorwise" if NOT_DELAYED & set(self.recompute) else "delayed"
        return self.fp8_recipe or (self.stack is not None and self.stack.fp8_recipe) or usual

    @property
    def absorbs(self) -> bool:
        """Whether latent attention decodes without expanding what is cached, as engines do (DeepSeek-V2,
        arXiv:2405.04434, section 2.1.2)."""
        return self.latent_reading != "expanded"

    def changed(self, **words: Any) -> Self:
        """The same run with other words; another phase has its own mode. Errors: as Run."""
        own = self.__dict__
        kept = self.model_fields_set - {"mode"} if "phase" in words else self.model_fields_set
        return type(self)(**({name: own[name] for name in kept} | words))

    def placed(self, sizes: Mapping[str, Size]) -> Self:
        """This run with those of `sizes` that are its own: names of LOAD_SIZES and PLAN_SIZES. Errors: as Run."""
        return self.changed(**{name: sizes[name] for name in (*LOAD_SIZES, *PLAN_SIZES) if name in sizes})


def exact_run(run: Run | None = None, **words: Any) -> Run:
    """A Run that has an exact answer: `run` with other words, where there is one.

    Errors: as Run, and Refused for a size that is a float or a fraction: half a token is no load.
    """
    made = Run(**words) if run is None else run.changed(**words)
    for name in (*LOAD_SIZES, "images"):
        if name in made.model_fields_set and isinstance(value := getattr(made, name), float | Fraction):
            raise Refused(name, "a whole number", value)
    return made


def common_length(specs: Sequence[ModelSpec]) -> int:
    """2,048 tokens, or the longest sequence that all of `specs` take where that is less.

    Errors: Refused where one is no model's description.
    """
    for spec in specs:
        check_model(spec)
    return min((USUAL_LENGTH, *(spec.max_seq_len for spec in specs if spec.max_seq_len)))


def common_context(specs: Sequence[ModelSpec], seq: int | None = None) -> int:
    """`seq` tokens, by default `common_length`, or one less where one more would be past what one of `specs` takes."""
    seq = common_length(specs) if seq is None else seq
    return seq - any(spec.max_seq_len == seq for spec in specs)
