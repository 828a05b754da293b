"""The nouns everything folds over: a `Weight`, a `Cache`, an `Op` that really runs, and a `Part` that repeats.

A model is a tree of parts whose leaves are ops. Parameters, FLOPs and cache bytes are sums over that tree
(`calc.quantities`); nothing is counted anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from calc.functions import Attend, Function, Matmul
from calc.sizes import Size

Kind = Literal["linear", "attention", "gather", "norm", "elementwise"]
Component = Literal[
    "embedding",
    "positional",
    "attention",
    "mlp",
    "router",
    "routed_expert",
    "shared_expert",
    "norm",
    "lm_head",
    "mtp",
    "ssm",
    "adapter",
    "vision",
    "other",
]


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter tensor.

    key: its path below the part that holds it. A leading "/" makes it a path from the root: a tied head carries the
        embedding's key, and a key is counted once.
    common: whether it is one tensor for all layers of its group, whatever else each has of its own (Zamba2).
    shape: elements along each axis, [out, in] for matrices. trainable: whether training changes it.
    """

    key: str
    shape: tuple[Size, ...]
    component: Component
    trainable: bool = True
    common: bool = False

    @property
    def elements(self) -> Size:
        product: Size = 1
        for axis in self.shape:
            product = product * axis
        return product


@dataclass(frozen=True, slots=True)
class Cache:
    """What a layer keeps per sequence for later tokens, in elements.

    per_token: what one more token adds. window: the most tokens that stay, or None where all do.
    fixed: what does not grow with the tokens: keys and values of an encoder, a convolution's last inputs.
    recurrent: the state of a recurrence, kept in a number format of its own.
    stride: where one entry of per_token elements stands for so many tokens; rest: what each token adds until its entry
        is complete.
    heads: how many equal shares it has that different ranks can hold; 1 where each needs all of it (a latent).
    """

    per_token: Size = 0
    window: Size | None = None
    fixed: Size = 0
    recurrent: Size = 0
    stride: Size | None = None
    rest: Size = 0
    heads: Size = 1


@dataclass(frozen=True, slots=True)
class Moves:
    """What one call of an op moves, in elements, as one kernel that reads each operand and writes each result once.

    reads, writes: of activations; a score matrix counts whole, whatever a mask hides. Numbers of tokens and places read
        to look something up are left out.
    weight_reads: of its weights, where those are not all read once: the rows looked up, the experts visited.
    weight_grads: of its weights' gradients, where those are not of all that are trainable, once.
    cache_reads: of keys, values and other inputs of earlier tokens, the new ones' not among them; cache_writes: what is
        kept of the new tokens. state_reads, state_writes: of recurrent state, which has a format of its own.
    from_chain: of `reads`, what ops ahead of it in its chain have just made; to_chain: of `writes`, what only ops
        behind it in its chain read. A chain is a run of ops that can be one kernel: those without products, or scores,
        softmax and values. Where it is the first of a chain, or the last, they count nothing.
    """

    reads: Size = 0
    writes: Size = 0
    weight_reads: Size | None = None
    weight_grads: Size | None = None
    cache_reads: Size = 0
    cache_writes: Size = 0
    state_reads: Size = 0
    state_writes: Size = 0
    from_chain: Size = 0
    to_chain: Size = 0


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of the forward pass.

    flops: of matrix multiplications and convolutions, one multiply-accumulate = 2; elementwise work counts 0.
    input_grad: whether backward needs the gradient of its input; False where nothing before it is trained.
    backward: FLOPs of going back, where they are not once more `flops` for each operand that needs a gradient.
    rows: of a dense matrix, how many vectors it is multiplied with.
    in_parts: whether a block uses a part of its matrix at a time, so that there is no product with the whole of it.
    live: whether backward passes it; False where nothing that it reads, and nothing in it, is trained.
    reached: 1, or 0 where a sequence is too short for its result to be read, so that no gradient comes back.
    function: what is computed. shape: the products, of what has any.
    moves: what one call moves; None: not told (tests hold that no op of a tree is without). It is worked out when it is
        asked for: most questions, and a million configurations at once, are about FLOPs and weights alone.
    """

    name: str
    kind: Kind
    component: Component
    flops: Size = 0
    weights: tuple[Weight, ...] = ()
    cache: Cache | None = None
    input_grad: bool = True
    backward: Size | None = None
    rows: Size | None = None
    in_parts: bool = False
    live: bool = True
    reached: Size = 1
    function: Function = "other"
    shape: Matmul | Attend | None = None
    moves: Callable[[], Moves] | None = None

    def moving(self, **changed: Size) -> Op:
        """The same op with some of what it moves told anew."""
        told = self.moves
        return replace(self, moves=lambda: replace(Moves() if told is None else told(), **changed))

    @property
    def reads(self) -> Size | None:
        return None if self.moves is None else self.moves().reads

    @property
    def writes(self) -> Size | None:
        return None if self.moves is None else self.moves().writes

    @property
    def weight_reads(self) -> Size | None:
        return None if self.moves is None else self.moves().weight_reads

    @property
    def cache_reads(self) -> Size:
        return 0 if self.moves is None else self.moves().cache_reads

    @property
    def cache_writes(self) -> Size:
        return 0 if self.moves is None else self.moves().cache_writes

    @property
    def state_reads(self) -> Size:
        return 0 if self.moves is None else self.moves().state_reads

    @property
    def state_writes(self) -> Size:
        return 0 if self.moves is None else self.moves().state_writes

    @property
    def from_chain(self) -> Size:
        return 0 if self.moves is None else self.moves().from_chain

    @property
    def to_chain(self) -> Size:
        return 0 if self.moves is None else self.moves().to_chain

    @property
    def weights_read(self) -> Size:
        """Elements of its weights that one call reads."""
        told = self.weight_reads
        return sum((weight.elements for weight in self.weights), start=0) if told is None else told

    @property
    def weight_gradients(self) -> Size:
        """Elements of the gradients of its weights that going back once writes."""
        told = None if self.moves is None else self.moves().weight_grads
        if told is not None:
            return told
        return sum((weight.elements for weight in self.weights if weight.trainable), start=0)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the model that runs `calls` times and stands `copies` times in memory.

    name: a `{}` or `{group}` in it stands for the number of the copy.
    copies: how many sets of its weights exist (32 layers; 8 experts; 1 where layers share).
    active: how many of those sets one token visits (top_k experts); None means all.
    calls: how many times its ops run per forward pass. Experts' ops already hold all tokens' work: calls 1.
    layer: whether activation checkpointing treats it as one block.
    indices: the numbers of the copies where they are not 0, 1, 2, … (interleaved layers).
    component: what all weights in it are reported as, whatever they say themselves (a vision tower).
    """

    name: str
    body: tuple[Part | Op, ...]
    calls: Size = 1
    copies: Size = 1
    active: Size | None = None
    layer: bool = False
    indices: tuple[int, ...] | None = None
    component: Component | None = None


class Leaf(NamedTuple):
    """An op where it stands in the tree, with the multipliers of all parts above it.

    layer: the path of the checkpointed block it belongs to, or None. component: what a part above it says its weights
    are, or None. parents: the parts above it, outermost first.
    """

    path: str
    op: Op
    calls: Size
    copies: Size
    active: Size
    layer: str | None
    component: Component | None
    parents: tuple[Part, ...]


def leaves(part: Part) -> Iterator[Leaf]:
    """Every op of the tree in the order it runs."""
    return _leaves(part, Leaf("", Op("", "gather", "other"), 1, 1, 1, None, None, ()))


def _leaves(part: Part, above: Leaf) -> Iterator[Leaf]:
    calls = _times(above.calls, part.calls)
    copies = _times(above.copies, part.copies)
    active = _times(above.active, part.copies if part.active is None else part.active)
    layer = above.path if part.layer else above.layer
    component = part.component or above.component
    parents = (*above.parents, part)
    for child in part.body:
        path = f"{above.path}.{child.name}" if above.path else child.name
        if isinstance(child, Op):
            yield Leaf(path, child, calls, copies, active, layer, component, parents)
        else:
            yield from _leaves(child, Leaf(path, above.op, calls, copies, active, layer, component, parents))


def _times(a: Size, b: Size) -> Size:
    """`a * b` that leaves an array alone when the other factor is the int 1: most parts stand once."""
    if type(b) is int and b == 1:
        return a
    if type(a) is int and a == 1:
        return b
    return a * b
