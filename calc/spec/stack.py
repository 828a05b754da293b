"""A stack: the framework that runs a step of training, as its documents describe it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from calc.errors import Refused, did_you_mean
from calc.reading.files import parse_toml, read_text
from calc.spec.catalogue import load_device
from calc.spec.fields import Graphs, Node, refuse
from calc.spec.hardware import Device

STACKS = Path(__file__).parents[1] / "data" / "stacks"
GradientCopy = Literal["none", "beside", "flat"]
USUAL_STACK = "pytorch"
"""What runs where no stack is said."""


class Overlap(Node):
    """What a stack lets run beside computing: what ranks of data parallelism tell each other (gathered weights, reduced
    gradients), the sums of tensor parallelism, keys and values of context parallelism, experts' exchange, and messages
    between stages of an interleaved pipeline. cores: of a device that do nothing but experts' exchange.
    experts_launched: the part of that exchange that computing beside it hides where a host launches kernels one by one;
    a graph of the whole step leaves neither waiting for the host."""

    data: bool = True
    tensor: bool = False
    context: bool = True
    experts: bool = False
    experts_launched: Annotated[float, Field(ge=0, le=1)] = 1.0
    pipeline: bool = True
    cores: Annotated[int, Field(ge=0)] = 0


class Offload(Node):
    """How a stack updates weights on the host. source: where it was read. zero: the stages of ZeRO that it goes with.
    overlap: whether gradients on their way there, the host's step and weights on their way back run beside each other.

    reaches, link: parts of the bandwidths of the host's memory and of the link to it that the step and the copies
    reach, fitted on the rows that `on` names; low, high: between which multiples of the predicted seconds measured ones
    are expected. None: no time is told.
    """

    source: str
    zero: tuple[int, ...]
    overlap: bool = False
    reaches: Annotated[float, Field(gt=0, le=1)] | None = None
    link: Annotated[float, Field(gt=0, le=1)] | None = None
    low: Annotated[float, Field(gt=0, le=1)] = 1.0
    high: Annotated[float, Field(ge=1)] = 1.0
    on: tuple[str, ...] = ()


class DeepEP(Node):
    """How a stack has DeepEP send experts' tokens. source: where it was read. gpus: on which, by their names in the
    catalogue. sms: cores that send. peers: GPUs that its kernels within a node reach."""

    source: str
    gpus: tuple[str, ...]
    sms: Annotated[int, Field(gt=0)]
    peers: Annotated[int, Field(gt=1)]


class ActivationsOnHost(Node):
    """How a stack keeps on the host what layers keep for backward. source: where it was read. checkpointing: what it
    recomputes beside. part: whether it can do so of a part of the layers. bounded: whether layers wait for those that
    leave, and come back in the place of those that have gone back, so that a GPU holds no more of them than stay."""

    source: str
    checkpointing: tuple[str, ...]
    part: bool = False
    bounded: bool = False


class Fitted(Node):
    """What measurements alone tell. on: the rows that it was fitted on, by source and system.

    computing: seconds of a step's kernels over those of the kernels alone, by the device of those rows, and `other` for
    devices of no such architecture. kernel: seconds between one kernel of a pass that no graph launches and the next,
    beyond what launching takes. experts: seconds of the host for each such kernel of models with routed experts, whose
    many small products it does not run ahead of, beside what the device takes; None, as others, where no step of one
    was fitted on.
    """

    on: tuple[str, ...]
    computing: Mapping[str, Annotated[float, Field(gt=0)]]
    kernel: Annotated[float, Field(ge=0)] = 0.0
    experts: Annotated[float, Field(ge=0)] | None = None

    def between(self, experts: bool) -> float:
        """Seconds between a kernel and the next, or of the host for each. experts: whether a model has routed ones."""
        return self.experts if experts and self.experts is not None else self.kernel

    def catches_up(self, experts: bool) -> bool:
        """Whether they pass beside what the device takes."""
        return experts and self.experts is not None


class Stack(Node):
    """One framework. version, sources: what its description rests on. compiled: whether runs of elementwise operators
    are one kernel. attention: what runs it, by the names of [attention.backends] of calc/data/priors.toml.
    accumulates: whether products for weights' gradients add to those of earlier micro-batches themselves, in buffers
        that are there before the first goes back.
    gradient_copy: which copy of gradients the optimizer steps with: of narrow ones one `beside` them that is as wide as
        what it updates; of all one that is laid `flat` and then as wide, where the others go (DeepSpeed's).
    joins: whether products that read the same (queries, keys and values; gate and up) are one.
    weighs_activation: whether routers' weights multiply what experts' activations give, so that results are not kept.
    once_a_rank: whether a token goes once to each rank that holds experts of it, or once to each expert.
    bias_an_expert: whether the bias behind experts' last product is added to each expert's rows by itself, in fp32.
    product_an_expert: whether experts' products are launched one by one, not as one grouped product.
    graphs: which kernels CUDA graphs launch where a run does not say, as `Run` has it.
    pipelines: whose stages of a pipeline are: of `torch` (torch.distributed.pipelining), which holds what it holds
        between them; of `megatron`, which frees that, and turns to the next piece of a stage after as many
        micro-batches as there are stages; of its `own`, which frees it too and takes any number of them.
    fsdp: whether its ZeRO-2 is FSDP's (`Run.weights_from`) whatever the number formats are.
    recipes: a general recipe of number formats -> the one that stands for it here, by what the stack keeps in which
        format.
    fp8_recipe: what shares a scale in fp8 where a run does not say; None: Megatron-Core's usual. fp8_param_gather:
        whether it can have matrices gathered in fp8. keeps_copies: whether it keeps copies of weights in few bits as
        Transformer Engine does.
    offload, activations_on_host: None where it is not described. deepep: None where it is not what sends.
    """

    name: str
    title: str
    version: str
    sources: tuple[str, ...] = Field(min_length=1)
    compiled: bool = True
    attention: str = ""
    accumulates: bool = False
    gradient_copy: GradientCopy = "none"
    joins: bool = False
    weighs_activation: bool = False
    once_a_rank: bool = False
    bias_an_expert: bool = False
    product_an_expert: bool = False
    graphs: Graphs = "none"
    pipelines: Literal["torch", "megatron", "own"] = "megatron"
    fsdp: bool = False
    recipes: Mapping[str, str] = Field(default_factory=dict)
    fp8_recipe: str | None = None
    fp8_param_gather: bool = False
    keeps_copies: bool = True
    overlap: Overlap = Overlap()
    offload: Offload | None = None
    activations_on_host: ActivationsOnHost | None = None
    deepep: DeepEP | None = None
    fitted: Fitted

    def __hash__(self) -> int:
        return hash(self.name)

    def recipe(self, named: str) -> str:
        """The recipe that stands here for a general one."""
        return self.recipes.get(named, named)

    def computing(self, device: Device | None, experts: bool = False) -> float:
        """How many times as long a step's kernels take on a device as they do alone.

        Where the rows are of another device of the same architecture, products in a step are taken to be as fast as the
        board's power lets them: a step keeps all cores busy for seconds, a measured kernel for less than one. With
        routed experts, cores wait between small products, so that more power than that of the rows makes them no
        faster. experts: whether the model has some.
        """
        found = None if device is None else _of_kin(self.fitted.computing, device)
        if found is None:
            return self.fitted.computing["other"]
        factor, slower = found
        return factor * (max(slower, 1.0) if experts else slower)


def _of_kin(known: Mapping[str, float], device: Device) -> tuple[float, float] | None:
    """(the factor of a device of the same architecture, how many times as much power that has); the device's own first,
    and None where there is none."""
    if device.name in known:
        return known[device.name], 1.0
    for name in known.keys() - {"other"}:
        like = load_device(name)
        if device.architecture.startswith(like.architecture) and like.power and device.power:
            return known[name], like.power.value / device.power.value
    return None


def stack_names() -> list[str]:
    """The names of the stacks that are known, sorted."""
    return sorted(path.stem for path in STACKS.glob("*.toml"))


@cache
def load_stack(name: str) -> Stack:
    """The stack called `name`. Errors: Refused, with the nearest names."""
    if name not in stack_names():
        raise Refused("stack", f"one of {', '.join(stack_names())}{did_you_mean(name, stack_names())}", name[:80])
    path = STACKS / f"{name}.toml"
    try:
        return Stack.model_validate({"name": name, **_tuples(parse_toml(read_text(path), path.name))})
    except ValidationError as error:
        raise refuse(error, path.stem) from None


def _tuples(table: dict[str, object]) -> dict[str, object]:
    """TOML's lists as tuples, which strict descriptions ask for."""
    found: dict[str, object] = {}
    for key, value in table.items():
        found[key] = tuple(value) if isinstance(value, list) else _tuples(value) if isinstance(value, dict) else value
    return found
