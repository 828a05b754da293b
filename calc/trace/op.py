"""The nouns that a part of a model holds: a `Weight`, a `Cache`, and an `Op` that really runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from calc.sizes import Size
from calc.trace.footprint import Footprint
from calc.trace.functions import Attend, Function, Matmul, Recurrence
from calc.trace.shard import Shard
from calc.trace.tensor import Tensor

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
    "audio",
    "other",
]
NEVER_NARROW: tuple[Component, ...] = ("router", "lm_head")
"""Whose products read and compute in 16 bits in recipes of fewer: they are none of Transformer Engine's layers in
Megatron-Core (core_v0.18.0, moe/router.py: RouterGatingLinearFunction keeps what it is given, and computes in fp32 of
16 bits; tensor_parallel's output layer), and DeepSeek-V3 keeps them so too (arXiv:2412.19437, section 3.3.1)."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter tensor.

    key: its path below the part that holds it. A leading "/" makes it a path from the root: a tied head carries the
        embedding's key, and a key is counted once.
    common: whether it is one tensor for all layers of its group, whatever else each has of its own (Zamba2).
    shape: elements along each axis, [out, in] for matrices. trainable: whether training changes it.
    shard: how tensor-parallel ranks divide it; None: each has all of it.
    never_narrow: whether its products are in 16 bits in recipes of fewer, as those of NEVER_NARROW are.
    """

    key: str
    shape: tuple[Size, ...]
    component: Component
    trainable: bool = True
    shard: Shard | None = None
    common: bool = False
    never_narrow: bool = False

    @property
    def narrows(self) -> bool:
        """Whether recipes of fewer bits have its products in them."""
        return not self.never_narrow and self.component not in NEVER_NARROW

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
    grouped, groups: of `fixed`, numbers of which there are other shares, as many as `groups` (Mamba-2's B and C).
    index: whether it is an indexer's keys, which say what attention reads and are not read by it.
    """

    per_token: Size = 0
    window: Size | None = None
    fixed: Size = 0
    recurrent: Size = 0
    stride: Size | None = None
    rest: Size = 0
    heads: Size = 1
    index: bool = False
    grouped: Size = 0
    groups: Size = 1


@dataclass(frozen=True, slots=True)
class Moves:
    """What one call of an op moves, in elements, as one kernel that reads each operand and writes each result once.

    reads, writes: of activations; a score matrix counts whole, whatever a mask hides. Numbers of tokens and places read
        to look something up are left out.
    weight_reads: of its weights, where those are not all read once: the rows looked up, the experts visited.
    weight_grads: of its weights' gradients, where those are not of all that are trainable, once.
    cache_reads: of keys, values and other inputs of earlier tokens, the new ones' not among them; cache_writes: what is
        kept of the new tokens. state_reads, state_writes: of recurrent state, which has a format of its own.
    again: of `reads`, what ops ahead of it have read already, so that one kernel for all of them does not (values that
        are the keys).
    """

    reads: Size = 0
    writes: Size = 0
    weight_reads: Size | None = None
    weight_grads: Size | None = None
    cache_reads: Size = 0
    cache_writes: Size = 0
    state_reads: Size = 0
    state_writes: Size = 0
    again: Size = 0


Keeps = Callable[..., Any]
"""(tape, a storage for each operand) -> the storage of the result, or of each: what autograd keeps, written down."""

LiveBytes = Callable[[Footprint], Size]
"""Bytes that an op makes beside what it reads, at its widest moment, where that is not its outputs alone."""
Tables = Callable[[Footprint], Mapping[str, Size]]
"""By name, bytes of what is made once for all layers (cosines and sines, a mask)."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of the forward pass.

    name: what it is called in its part. kind: what sort of work it is. component: what its FLOPs are reported as.
    flops: of matrix multiplications and convolutions, one multiply-accumulate = 2; elementwise work counts 0.
    weights: the parameters that it reads. lent: those that it reads where they stand in another part.
    cache: what it keeps for later tokens; None: nothing.
    input_grad: whether backward needs the gradient of its input; False where nothing before it is trained.
    backward: FLOPs of going back, where they are not once more `flops` for each operand that needs a gradient.
    rows: of a dense matrix, how many vectors it is multiplied with.
    in_parts: whether a block uses a part of its matrix at a time, so that there is no product with the whole of it.
    live: whether backward passes it; False where nothing that it reads, and nothing in it, is trained.
    groups: of a norm whose input ranks divide, the shares of a row that are normed each by itself; more ranks than
        these add up their squares.
    reached: 1, or 0 where a sequence is too short for its result to be read, so that no gradient comes back.
    function: what is computed. shape: the products, of what has any.
    moves: what one call moves, where that is not its inputs and outputs, each once. It is worked out when it is asked
        for: most questions, and a million configurations at once, are about FLOPs and weights alone.
    inputs, outputs: the tensors that it reads and makes. operands: those whose storages `keeps` is given, where they
        are not its inputs.
    keeps: what autograd keeps of it; None: nothing, and no later op asks for what it makes.
    silent: whether it is there for what autograd keeps alone, and no kernel is counted for it (dropout).
    passes_on: whether backward asks for nothing that it reads or makes (a product with a number).
    live_bytes: bytes live at its widest moment beside what it reads, in a pass that keeps nothing for backward; None:
        those of its outputs.
    tables: bytes of what is made once for all layers in such a pass, by name.
    recurrence: the kernel that engines run in its place; None: one of its own.
    module: of those that can be computed again by themselves (`calc.spec.run.training`), its own, or None.
    """

    name: str
    kind: Kind
    component: Component
    flops: Size = 0
    weights: tuple[Weight, ...] = ()
    lent: tuple[Weight, ...] = ()
    cache: Cache | None = None
    input_grad: bool = True
    backward: Size | None = None
    rows: Size | None = None
    in_parts: bool = False
    groups: Size | None = None
    live: bool = True
    reached: Size = 1
    function: Function = "other"
    shape: Matmul | Attend | None = None
    moves: Callable[[], Moves] | None = None
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    keeps: Keeps | None = None
    operands: tuple[Tensor, ...] | None = None
    silent: bool = False
    passes_on: bool = False
    live_bytes: LiveBytes | None = None
    tables: Tables | None = None
    recurrence: Recurrence | None = None
    module: str | None = None
    _moved: list[Moves] = field(default_factory=list, init=False, repr=False, compare=False)
    """What `moved` has worked out: many readings of one record ask for it."""

    def moved(self) -> Moves:
        """What one call moves: unless told otherwise each input is read once, and each output written."""
        if not self._moved:
            self._moved.append(self._passed_once() if self.moves is None else self.moves())
        return self._moved[0]

    def _passed_once(self) -> Moves:
        return Moves(sum((x.elements for x in self.inputs), start=0), sum((x.elements for x in self.outputs), start=0))

    @property
    def reads(self) -> Size:
        return self.moved().reads

    @property
    def writes(self) -> Size:
        return self.moved().writes

    @property
    def weight_reads(self) -> Size | None:
        return self.moved().weight_reads

    @property
    def cache_reads(self) -> Size:
        return self.moved().cache_reads

    @property
    def cache_writes(self) -> Size:
        return self.moved().cache_writes

    @property
    def state_reads(self) -> Size:
        return self.moved().state_reads

    @property
    def state_writes(self) -> Size:
        return self.moved().state_writes

    @property
    def own_or_lent(self) -> tuple[Weight, ...]:
        """The parameters that it reads, wherever they stand: they say how ranks divide it."""
        return self.weights or self.lent

    @property
    def weights_read(self) -> Size:
        """Elements of its weights that one call reads."""
        reads = self.weight_reads
        return sum((weight.elements for weight in self.weights), start=0) if reads is None else reads

    @property
    def weight_gradients(self) -> Size:
        """Elements of the gradients of its weights that going back once writes."""
        trained = [weight.elements for weight in self.weights if weight.trainable]
        written = self.moved().weight_grads
        if written is not None:
            return written if trained or not self.weights else 0
        return sum(trained, start=0)
