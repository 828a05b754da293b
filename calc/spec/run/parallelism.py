"""How a run is spread over GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, PlainValidator, ValidationInfo

from calc import checks
from calc.errors import Refused
from calc.sizes import Size, at_least, exact_div, is_exactly
from calc.spec.run.node import MaybePositive, MaybeYesNo, Positive, RunNode, Word

if TYPE_CHECKING:
    from calc.spec.hardware import Device

Schedule = Literal["1f1b", "gpipe", "zero-bubble", "dualpipe"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


def _zero(value: Any, info: ValidationInfo) -> Size:
    stage = checks.size("zero", value, 0)
    if isinstance(stage, int) and stage > 3:
        raise Refused("zero", "0, 1, 2 or 3", stage)
    return stage


def _cluster(value: Any, info: ValidationInfo) -> Any:
    """A Cluster, or None."""
    if value is None:
        return None
    from calc.spec.cluster import Cluster  # most runs name none
    from calc.spec.clusters import load_cluster

    if isinstance(value, str):
        return load_cluster(value)
    if isinstance(value, Cluster):
        return value
    raise Refused("cluster", "a name that `clusters` lists, or a TOML file", value)


class Parallelism(RunNode):
    """Ranks of data, tensor, pipeline, context and expert parallelism.

    Experts are spread over the data and context ranks, so ep divides dp * cp, and over the tensor ranks too where
    these do not cut them (expert_tp 1; Megatron-Core's parallel folding, arXiv:2504.14960). GPUs: dp * tp * pp * cp.
    sequence_parallel: whether what lies between tensor-parallel blocks is divided along the sequence; None: where
    tp is above 1. micro_batches: None: as many as fill the pipeline. stages: None: as even as can be, the earlier ones
    larger. shard: None: all of dp * cp; else ZeRO divides among so many, and dp * cp / shard groups hold the same.
    """

    dp: Positive = Field(default=1, description="Data-parallel ranks; --batch is of one of them.")
    tp: Positive = Field(default=1, description="Tensor-parallel ranks.")
    pp: Positive = Field(default=1, description="Stages of a pipeline.")
    cp: Positive = Field(default=1, description="Context-parallel ranks.")
    ep: Positive = Field(default=1, description="Ranks that experts are spread over, among those of --dp and --cp.")
    expert_tp: MaybePositive = Field(
        default=None, description="Training: parts of each expert, 1 or those of --tp; 1 spreads experts over --tp too."
    )
    zero: Annotated[Size, PlainValidator(_zero)] = Field(
        default=0, description="Training: data-parallel ranks divide 1 the optimizer, 2 gradients, 3 weights too."
    )
    sequence_parallel: MaybeYesNo = Field(default=None, description="Tensor-parallel ranks divide the residual stream.")
    micro_batches: MaybePositive = Field(default=None, description="Training: passes of one step.")
    interleave: Positive = Field(default=1, description="Training: pieces of its layers that a stage holds.")
    schedule: Annotated[Schedule, PlainValidator(Word(lambda: SCHEDULES))] = Field(
        default="1f1b", description="Training: the order in which a pipeline's stages go forward and back."
    )
    stages: tuple[int, ...] | None = Field(default=None, description="Layers of each stage: 15,16x14,15.")
    shard: MaybePositive = Field(
        default=None, description="Training: ranks that ZeRO divides among; the others hold replicas."
    )
    cluster: Annotated[Any, PlainValidator(_cluster)] = Field(
        default=None, description="What links the GPUs: a name that `clusters` lists, or a TOML file."
    )
    accelerator: str | None = Field(
        default=None, description="What it runs on, where no cluster says it: a name that `gpus` lists."
    )
    network: float | None = Field(
        default=None, description="Each GPU's share of what leads to other nodes: 50GB/s or 400Gbps."
    )

    @property
    def device_named(self) -> Device | None:
        """The device that ranks run on: the cluster's, or that which was named. None where nobody says."""
        named = self.accelerator if self.cluster is None else self.cluster.gpu
        if named is None:
            return None
        from calc.spec.catalogue import load_device  # most runs name none

        return load_device(named)

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
        """Micro-batches of one step of training; where nobody says it one a stage, and where DualPipe feeds both ends
        of a pipeline two."""
        if self.micro_batches is not None:
            return self.micro_batches
        return self.pp * (1 + at_least(self.pp, 2)) if self.schedule == "dualpipe" else self.pp

    @property
    def sharing(self) -> Size:
        """Ranks that ZeRO divides among: all that hold the same weights, or the `shard` that was said."""
        return self.dp * self.cp if self.shard is None else self.shard

    def divides(self, stage: int) -> Size:
        """1 where ZeRO divides what its `stage` does, else 0; there is nothing to divide between one rank."""
        return at_least(self.zero, stage) * at_least(self.sharing, 2)

    @property
    def reduces_each_pass(self) -> Size:
        """1 where every pass divides its gradients, else 0: a pipeline keeps them whole from pass to pass."""
        return at_least(self.zero, 2) * (1 - at_least(self.pp, 2))

    @property
    def expert_pieces(self) -> Size:
        """Into how many parts tensor-parallel ranks cut each routed expert."""
        return self.tp if self.expert_tp is None else self.expert_tp

    @property
    def folded(self) -> Size:
        """How many times as many ranks share out experts as hold the rest of the same weights: tensor-parallel ranks
        that do not cut them."""
        return 1 if self.expert_tp is None else exact_div(self.tp, self.expert_tp)

    def replicas(self, expert: bool = False) -> Size:
        """Ranks that hold the same weights before ZeRO divides them.

        Errors: ArithmeticError where ep does not divide them (`calc.memory.conditions` says so in better words).
        """
        return exact_div(self.dp * self.cp * self.folded, self.ep) if expert else self.dp * self.cp

    def sharers(self, expert: bool = False) -> Size:
        """Of those ranks, the ones that ZeRO divides weights among.

        Errors: ArithmeticError where ep does not divide them.
        """
        return exact_div(self.sharing * self.folded, self.ep) if expert else self.sharing

    @property
    def accumulates(self) -> Size:
        """1 where gradients of earlier micro-batches wait while the next one runs, else 0."""
        return at_least(self.micro_batches_a_step, 2)
