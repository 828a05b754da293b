"""What one token asks of a model, from its recorded program: matrices, attention by length, states, what is launched.

The program is recorded once a model, over a column of lengths; everything below is arithmetic on that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from calc.blocks.build import build
from calc.errors import Refused
from calc.quantities.parameters import in_one_layer, weights
from calc.serve.sums import Sum, sums_of
from calc.spec import Mla, ModelSpec, Moe
from calc.spec.cache_key import CacheKey
from calc.spec.load import Load
from calc.trace.functions import Attend
from calc.trace.op import Cache
from calc.trace.part import Leaf, leaves
from calc.trace.shard import VOCABULARY, Shard

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST = 2**21
"""Tokens of the longest sequence that curves reach; longer ones are refused."""
STEPS = 8
"""Lengths of a curve between n and 2 n: a square read at whole lengths between them is 0.13 % too much in the mean and
0.2 % at most, of fewer than 128 tokens 0.5 %, where lengths are rounded."""
LAUNCHED_ALONE = ("batched_matmul", "convolution", "conv1d", "scores", "scan", "rmsnorm", "layernorm", "rope", "route")
"""Functions that are a kernel each in an engine, as is what reads a recurrence's state; what follows elementwise is
fused into them. A layer of routed experts is timed as a whole, from where it begins."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Dense matrices of one shape, or any weights of a tower. calls: how many are passed, in all layers. copies: how
    many are held, fewer where layers share them. expert: whether it is one expert's."""

    shape: tuple[float, ...]
    shard: Shard | None
    calls: float
    copies: float
    kind: str
    expert: bool

    def elements(self, tp: int) -> float:
        """Elements of one of them on the rank that holds the most."""
        if self.shard is None:
            return _product(self.shape)
        return float(self.shard.elements(self.shape, tp))


@dataclass(frozen=True, slots=True)
class Curve:
    """A quantity of one sequence by its length, at the lengths of `lengths()`. heads: equal shares that ranks can hold
    of it; 1 where each needs all."""

    values: NDArray[Any]
    heads: float


@dataclass(frozen=True, slots=True)
class Work:
    """A model as a server sees it.

    matrices: with where they stand. towers: what towers of pictures and sound hold. decode_flops, decode_cache: of
    attention for one new token behind so many cached ones: FLOPs, and elements of the cache that are read.
    prompt_flops: FLOPs of attention over a prompt of that length. caches: what layers keep of a sequence, with how many
    such layers there are. moved: elements that pass between kernels for one token, over all layers. states: elements of
    recurrent state that a new token reads and writes. other_flops: of what is neither product with a weight nor
    attention. kernels: launched in one pass; mixer_products, channel_products: those of them that are products of
    mixers and of channels. sums: what ranks sum. top_k, n_experts: of its routed layers. moe_layers: how
    many of them.
    """

    d_model: float
    matrices: tuple[Matrix, ...]
    decode_flops: tuple[Curve, ...]
    decode_cache: tuple[Curve, ...]
    prompt_flops: tuple[Curve, ...]
    caches: tuple[tuple[Cache, float], ...]
    moved: float
    states: float
    other_flops: float
    kernels: float
    mixer_products: float
    channel_products: float
    sums: tuple[Sum, ...]
    moe_layers: float
    n_experts: float
    top_k: float
    latent: bool
    towers: tuple[Matrix, ...] = ()


def lengths() -> NDArray[Any]:
    """The lengths at which curves are known: 0, 1, and so on to LONGEST, evenly spaced in their logarithms."""
    import numpy as np

    top = LONGEST.bit_length() - 1
    return np.concatenate([[0.0], np.unique(np.round(2.0 ** (np.arange(STEPS * top + 1) / STEPS)))])


def work_of(spec: ModelSpec) -> Work:
    """The work of a model. Errors: Refused for a model that has no head or reads an encoder's result."""
    return _work(CacheKey(spec))


@lru_cache(maxsize=64)
def _work(key: CacheKey[ModelSpec]) -> Work:
    spec = key.value
    if spec.encoder is not None:
        raise Refused("MODEL", "a model of one stack: serving of encoder-decoders is not modelled", spec.name)
    places = lengths()
    new = _of_text(spec, Load(batch=1, seq=1, context=places, decode=True, absorbed=True))
    prompt = _of_text(spec, Load(batch=1, seq=places[1:], scores="causal-exact"))
    moe = [(group.count, group.channel) for group in spec.layers if isinstance(group.channel, Moe)]
    routed = moe[0][1] if moe else None
    attention = [leaf for leaf in new if isinstance(leaf.op.shape, Attend)]
    rest = [leaf for leaf in new if leaf.op.shape is None]
    return Work(
        d_model=float(spec.d_model),
        matrices=tuple(_matrices(new)),
        decode_flops=tuple(Curve(_column(x.op.flops * x.calls, places), _heads(x)) for x in attention),
        decode_cache=tuple(Curve(_column(x.op.moved().cache_reads * x.calls, places), _heads(x)) for x in attention),
        prompt_flops=tuple(
            Curve(_from_zero(x.op.flops * x.calls, places), _heads(x)) for x in prompt if isinstance(x.op.shape, Attend)
        ),
        caches=tuple((x.op.cache, float(x.calls)) for x in new if x.op.cache is not None),
        moved=sum(_first(x.op.moved().reads + x.op.moved().writes) * x.calls for x in rest if _streams(x)),
        states=sum(_first(x.op.moved().state_reads + x.op.moved().state_writes) * x.calls for x in new),
        other_flops=sum(_first(x.op.flops) * x.calls for x in rest),
        kernels=_launches(new),
        mixer_products=_products(new, "mixer"),
        channel_products=_products(new, "channel"),
        sums=tuple(sums_of(new, float(spec.d_model))),
        moe_layers=float(sum(count for count, _ in moe)),
        n_experts=float(routed.n_experts) if routed else 0.0,
        top_k=float(routed.visits) if routed else 0.0,
        latent=any(isinstance(group.mixer, Mla) for group in spec.layers),
        towers=tuple(_towers(spec)),
    )


def _launches(new: list[Leaf]) -> float:
    """Kernels of one pass: products of one input are one (queries, keys and values; gate and up)."""
    found, read = 0.0, set[tuple[int, bool]]()
    for leaf in new:
        if leaf.expert:
            continue
        if leaf.op.function == "matmul":
            key = (id(leaf.op.inputs[0]), leaf.op.component == "router")
            found += 0.0 if key in read else float(leaf.calls)
            read.add(key)
        elif leaf.op.function in LAUNCHED_ALONE or _first(leaf.op.moved().state_reads):
            found += float(leaf.calls)
    return found


def _products(new: list[Leaf], kind: str) -> float:
    """Products of mixers or of channels, those of one input as one: each has its input quantised where it is narrow."""
    found, read = 0.0, set[int]()
    for leaf in new:
        if leaf.op.function == "matmul" and leaf.op.weights and not leaf.expert and leaf.op.component != "router":
            head = leaf.op.weights[0].shard is VOCABULARY and leaf.place == "end"
            counts = not head and _kind(leaf) == kind and id(leaf.op.inputs[0]) not in read
            found += float(leaf.calls) if counts else 0.0
            read.add(id(leaf.op.inputs[0]))
    return found


def _of_text(spec: ModelSpec, load: Load) -> list[Leaf]:
    """The ops of one pass of the main stack: a tower's work is done when a prompt is read, and is counted apart."""
    return [leaf for leaf in leaves(build(spec, load)) if leaf.tower is None]


def _matrices(new: list[Leaf]) -> Iterator[Matrix]:
    for leaf in new:
        op = leaf.op
        if op.function != "matmul" or not op.weights:
            continue
        weight = op.weights[0]
        head = weight.shard is VOCABULARY and leaf.place == "end"
        kind = "expert" if leaf.expert else "head" if head else "router" if op.component == "router" else _kind(leaf)
        shape = tuple(float(size) for size in weight.shape)
        yield Matrix(shape, weight.shard, float(leaf.calls), _held(leaf), kind, leaf.expert)


def _towers(spec: ModelSpec) -> Iterator[Matrix]:
    """Weights of towers and of what leads from them to the text, which stand beside it however seldom they run."""
    for _, weight, leaf in weights(spec):
        if leaf.tower is not None or leaf.component in ("vision", "audio"):
            shape = tuple(float(size) for size in weight.shape)
            yield Matrix(shape, weight.shard, 0.0, float(leaf.copies), "tower", False)


def _held(leaf: Leaf) -> float:
    """How many of a matrix there are; `calls` of one expert are its layers, and its copies all experts of them."""
    if leaf.expert:
        return float(leaf.calls)
    return float((in_one_layer(leaf) if leaf.op.weights[0].common else leaf).copies)


def _kind(leaf: Leaf) -> str:
    return "channel" if leaf.op.component in ("mlp", "shared_expert") else "mixer"


def _streams(leaf: Leaf) -> bool:
    """Whether an op passes over activations: tables are looked up, and what a server never keeps is not passed."""
    return leaf.op.function not in ("gather", "softmax")


def _heads(leaf: Leaf) -> float:
    """Heads of keys and values of an op of attention over one sequence."""
    shape = leaf.op.shape
    return float(shape.groups) if isinstance(shape, Attend) else 1.0


def _column(value: Any, places: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.zeros(len(places)) + np.asarray(value, dtype=float)


def _from_zero(value: Any, places: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.concatenate([[0.0], _column(value, places[1:])])


def _first(value: Any) -> float:
    """A number that is the same for every length, or the first of its column."""
    import numpy as np

    return float(np.asarray(value, dtype=float).ravel()[0])


def _product(shape: tuple[float, ...]) -> float:
    found = 1.0
    for axis in shape:
        found *= axis
    return found
