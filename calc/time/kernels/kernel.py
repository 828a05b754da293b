"""A kernel: one thing a device is asked to do, with all that its time depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from calc.dtypes import dtype as number_format
from calc.sizes import Size
from calc.time.models.collective import Collective
from calc.trace.functions import TRAITS, Attend, Matmul

Direction = Literal["forward", "recomputed", "backward", "update", "network"]
Use = Literal["forward", "dgrad", "wgrad", "batched"]
Between = Literal["tensor", "context", "experts", "pipeline", "data"]
"""Which ranks tell one another: those that divide matrices, a sequence or experts, the stages of a pipeline, and those
that hold the same weights."""
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@dataclass(frozen=True, slots=True)
class Exchange:
    """Experts' tokens as DeepEP sends them on `gpus`, as the arguments of `ExchangeModel.seconds`."""

    tokens: float
    hidden: float
    top_k: float
    experts: float
    ranks: float
    sms: float
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """One collective between `ranks` GPUs. bytes: of the whole message, as nccl-tests count its size: what a rank holds
    after an all_gather, before a reduce_scatter, an all_reduce or an all_to_all. beyond: whether it leaves a domain of
    fast links. near: of the ranks, how many stand in one domain. once: of an all_to_all beyond, what part of the bytes
    crosses where what several ranks of a domain read is sent there once. exchange: where DeepEP sends it within a node.
    All but `op` and that may be arrays."""

    op: Collective
    ranks: Size
    bytes: Size
    beyond: Size = False
    near: Size = 1
    once: Size = 1.0
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class Routed:
    """What the time of a layer's experts depends on, as the arguments of `ExpertsModel.seconds`. products: that an
    expert has, 3 with a gate: a kernel of one of them takes that part of the layer's time."""

    tokens: float
    hidden: float
    inter: float
    experts: float
    top_k: float
    tp: float
    ep: float
    skew: float
    products: int


@dataclass(frozen=True, slots=True)
class Recurrent:
    """What the time of a recurrence's kernel depends on, as the arguments of `DeltaRuleModel.seconds`. kind, whole: as
    of `calc.trace.functions.Recurrence`."""

    kind: str
    batch: float
    seq: float
    heads: float
    key_heads: float
    d_key: float
    d_value: float
    whole: bool


class Kernel(NamedTuple):
    """`calls` equal calls of one kernel, or of the few that PyTorch runs in its place.

    path: of the op in the tree; what has none (loss, optimizer, collectives) has a name of its own. component: as in
    `calc.trace.op`, or `loss`, `optimizer`, `network`. function: of `calc.trace.functions`, or `cross_entropy`,
    `adamw`, …, or a collective. flops, bytes: of one call, when each operand is read once and each result written once.
    traffic: bytes that are really moved where several kernels run in its place. launches: how many of them. Of what
    follows a pass, calls, bytes and profiled_bytes may be columns of very many plans.
    dtype: number format it computes in. shape: what matrix products and attention depend on. use: which of the
    products of a dense layer it is, since they read their operands in different orders.
    biased: whether the forward product of a dense layer adds a bias.
    profiled_bytes: bytes by which profiles find a pass, those of its forward; None: `bytes`.
    sequences: how many the groups of attention are of. decode: whether it is that of single new tokens; trains: whether
    backward follows. weight_bytes: those of `bytes` that a quantized format makes fewer; None where weights are in
    `dtype`.
    cached: width of a cached key or value over that of the format that attention computes in.
    again: of a product, whether one ahead of it in its block reads the same, so that going back sums their gradients.
    cut: whether its result is read in pieces. heads: whether it gives heads of queries or keys. logits: or the logits.
    merged: columns of all products of its block that read the same, its own among them, which engines make one product.
    packed: the format of profiles for a product whose matrix is quantized, empty for plain ones. routed: of experts'
    products. within: whether it runs inside of what is measured as the time of a layer's experts.
    recurrence: the kernel of engines that it is, or a part of.
    place: where its op stands: `front`, `end`, or the name of its group of layers. backend: what a stack runs attention
    with, by the names of [attention.backends] of the priors; empty where nothing is said. between: of a collective.
    """

    path: str
    component: str
    function: str
    direction: Direction
    dtype: str
    calls: Size = 1
    flops: float = 0.0
    bytes: Size = 0.0
    traffic: float | None = None
    launches: float = 1
    shape: Matmul | Attend | Send | None = None
    use: Use = "forward"
    biased: bool = False
    profiled_bytes: Size | None = None
    sequences: int = 1
    decode: bool = False
    trains: bool = False
    weight_bytes: float | None = None
    cached: float = 1.0
    again: bool = False
    cut: bool = False
    heads: bool = False
    logits: bool = False
    merged: Size = 0
    packed: str = ""
    routed: Routed | None = None
    within: bool = False
    recurrence: Recurrent | None = None
    place: str = ""
    backend: str = ""
    between: Between | None = None

    def stands_in(self, part: str) -> bool:
        """Whether it is of a part of the tree; part: its path, empty for the whole."""
        return not part or f"{self.path}.".startswith(f"{part}.")

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.bytes if self.bytes else 0.0


NOTHING_SAVED = frozenset({*(name for name, each in TRAITS.items() if not each.needs_operands), "transpose"})
"""Kernels whose backward reads nothing but the gradient that comes in; a model's record has no transpose."""
ADAMW_COPIES = 7
"""fused AdamW reads weight, gradient and two moments, and writes all but the gradient (torch.optim.AdamW)."""
OPERANDS = {"adamw": ADAMW_COPIES, "accumulate": 3, "fill": 1, "sum": 1, "cross_entropy": 1}
"""Functions that go through memory so often for each element, other than once to read it and once to write it."""


def pass_bytes(function: str, elements: Size, width: float) -> Size:
    """Bytes of one pass over memory as profiles have them: every operand read once, every result written once.

    elements: of the result; of `cross_entropy` the logits, of `adamw` the parameters, of `sum` what is summed. width:
    bytes of an element. Weights of norms are left out. Profiles find a pass that goes back, `layernorm.backward`, by
    the bytes of the one that went forward.
    """
    two = function in ("add", "scale") or function.startswith(("swiglu", "geglu"))
    return OPERANDS.get(function, 3 if two else 2) * elements * width


def backward_elements(function: str, reads: float, writes: float) -> float:
    """Elements that really go through memory when a pass goes back which read and wrote so many forward.

    What forward read and the gradient of its result are read, and gradients of its operands written; those of a sum are
    passed on unchanged, and what counts here is the sum of two gradients where the stream forks.
    """
    if function == "add":
        return reads + writes
    return (0 if function in NOTHING_SAVED else reads) + writes + reads


def width_of(dtype: str) -> float:
    """Bytes of an element."""
    return number_format(dtype).bits / 8
