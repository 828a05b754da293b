"""A tape on which a block's forward pass is written down tensor by tensor, to know what autograd keeps of it.

Every primitive is one of PyTorch's and keeps what its derivative reads (pytorch 2.13,
tools/autograd/derivatives.yaml). A tensor has an identity: what several operations keep is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from calc.dtypes import dtype as number_format
from calc.errors import Refused
from calc.sizes import Size, equal
from calc.spec.run.training import DISCARDING
from calc.trace.settings import Settings
from calc.trace.tensor import Split

if TYPE_CHECKING:
    from calc.trace.op import Weight
    from calc.trace.tensor import Tensor

BITS = {"int64": 64, "bool": 8}


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """A tensor of a forward pass that runs under certain settings; what is kept of it is kept once.

    elements: how many. dtype: its number format. grad: whether going back needs its gradient.
    split, heads, grouped: what divides it among ranks (`calc.trace.tensor`).
    common: the name of what exists once however many layers read it (rotary angles). base: the tensor that this is a
        part of; what keeps it keeps all of that.
    weight: of a cast, the weight that it is a copy of; ranks divide it as they do that. expert: one for each expert.
    parameter: whether it is a parameter itself, which is there whoever keeps it. apart: 1 where it lies in memory so
    that every product lays out a copy of its own, all but the first of which are more than the tensor itself.
    """

    elements: Size
    dtype: str
    grad: bool = True
    split: Split = "stream"
    common: str | None = None
    base: Storage | None = None
    heads: Size = 1
    weight: Weight | None = None
    expert: bool = False
    parameter: bool = False
    grouped: Size = 0
    apart: Size = 0

    def part(self, elements: Size, split: Split | None = None, heads: Size | None = None, grouped: Size = 0) -> Storage:
        """A view of some of its elements."""
        heads = self.heads if heads is None else heads
        own, base = split or self.split, self.base or self
        return Storage(elements, self.dtype, self.grad, own, None, base, heads, grouped=grouped)

    @property
    def bytes(self) -> Size:
        return self.elements * element_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor that is kept for backward. op: the path of the op that keeps it first. role: what it is to that op."""

    op: str
    role: str
    tensor: Storage


def element_bytes(name: str) -> int:
    """Bytes of one element of a tensor."""
    return (BITS.get(name) or number_format(name).bits) // 8


@dataclass(slots=True)
class Tape:
    """What has been kept so far, in order. op: the path of the op at hand. shared: its weights serve all layers.
    stream: the number format of the first layer's input, and so of what all layers share; the settings' unless given.

    products: how many products with weights were made. results: of every second of them, from the first on, and of
    flash attention the result, with the number of tensors kept before it.
    elsewhere: what another layer keeps. choices: by the weights of the experts that tokens chose, the numbers of these.
    balances: of routers that are held to even shares, what the loss keeps of each.
    narrow: tensors and their copies in the format that products read, where those are made once for all readers.
    within: what each module that is computed again has made. discarded: of these, what nobody keeps, since it is made
    anew before anything reads it.
    """

    settings: Settings
    saved: dict[Storage, Saved] = field(default_factory=dict)
    op: str = ""
    shared: bool = False
    stream: str = ""
    dropping: bool = False
    products: int = 0
    results: list[tuple[Saved, int]] = field(default_factory=list)
    elsewhere: set[Storage] = field(default_factory=set)
    choices: dict[Tensor, Storage] = field(default_factory=dict)
    balances: list[Storage] = field(default_factory=list)
    narrow: dict[Storage, Storage] = field(default_factory=dict)
    within: dict[str, set[Storage]] = field(default_factory=dict)
    discarded: set[Storage] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.stream = self.stream or self.settings.stream

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """What is kept inside belongs to the part or op `name` of what is at hand."""
        before = self.op
        self.op = f"{before}.{name}" if before else name
        try:
            yield
        finally:
            self.op = before

    @contextmanager
    def region(self, name: str, *inputs: Storage) -> Iterator[None]:
        """What may be computed again in backward: then its inputs are kept, and nothing inside it."""
        before = self.dropping
        if name in self.settings.recompute and not before:
            for tensor in inputs:
                self.keep(tensor, "input of what is recomputed")
            self.dropping = True
        try:
            yield
        finally:
            self.dropping = before

    def again(self, module: str | None) -> bool:
        """Whether what belongs to that module is computed again, by itself and not in what holds it."""
        return module in self.settings.recompute and not self.dropping

    @contextmanager
    def module(self, name: str, reads: Sequence[Storage]) -> Iterator[None]:
        """A piece of a module that is computed again: what it reads of others is kept, and nothing of its own."""
        made = self.within.setdefault(name, set())
        for tensor in reads:
            if (tensor.base or tensor) not in made:
                self.keep(tensor, "input of what is recomputed")
        self.dropping = True
        try:
            yield
        finally:
            self.dropping = False

    def leave(self, name: str, made: Sequence[Storage]) -> None:
        """What such a piece has made: where it frees its results too, none of it is kept, whatever reads it."""
        found = {tensor.base or tensor for tensor in made}
        self.within[name] |= found
        if name in DISCARDING:
            self.discarded |= found

    def written_out(self, what: str) -> None:
        """Errors: Refused where one kernel is to compute what is known operation by operation alone."""
        if self.settings.fused:
            known = f"eager or sdpa, of which it is known what {what} keeps"
            raise Refused("execution", known, self.settings.execution)

    def keep(self, tensor: Storage, role: str) -> None:
        """Keep a tensor for backward, unless it is kept already."""
        tensor = tensor.base or tensor
        if tensor.parameter or tensor in self.discarded:
            return
        if tensor not in self.saved and tensor not in self.elsewhere and not self.dropping:
            self.saved[tensor] = Saved(self.op, role, tensor)

    def note_result(self, tensor: Storage, role: str) -> None:
        """Note what checkpointing by operation keeps, though autograd alone may not."""
        self.results.append((Saved(self.op, role, tensor), len(self.saved)))

    def keep_common(self, name: str, role: str, elements: Size, dtype: str, split: Split = "none") -> None:
        """Keep what serves all layers, once: what has that name and so many elements is the same."""
        if not any(tensor.common == name and equal(tensor.elements, elements) for tensor in self.saved):
            self.keep(Storage(elements, dtype, False, split, name), role)

    def has_common(self, name: str | None) -> bool:
        """Whether what serves all layers is kept already under that name."""
        return name is not None and any(each.common == name for each in self.saved)

    def note_product(self, made: Storage) -> None:
        """Count a product with a weight, of which checkpointing by operation keeps every second result."""
        self.products += 1
        if self.products % 2:
            self.note_result(made, "product")

    def like(self, x: Storage, *others: Storage, dtype: str | None = None) -> Storage:
        """A new tensor of x's size, made of x and `others` by what keeps nothing (a sum, a constant factor)."""
        wide = any(t.dtype == "fp32" for t in (x, *others))
        grad = _any_grad(x, *others)
        return Storage(
            x.elements, dtype or ("fp32" if wide else x.dtype), grad, x.split, heads=x.heads, grouped=x.grouped
        )

    def cast(self, x: Storage, dtype: str) -> Storage:
        """x in another number format, which keeps nothing; the same tensor where it has it already."""
        if x.dtype == dtype:
            return x
        return Storage(x.elements, dtype, x.grad, x.split, heads=x.heads, grouped=x.grouped)

    def narrowed(self, x: Storage) -> Storage:
        """x in the format in which a product with a weight keeps it: a copy of its own, or one with all that read x."""
        narrow = self.settings.inputs
        if narrow is None or x in self.discarded:  # The product then keeps what it is given, which is freed.
            return x
        if not self.settings.joins:
            return self.cast(x, narrow)
        if x not in self.narrow:
            self.narrow[x] = self.cast(x, narrow)
        return self.narrow[x]

    def product(
        self, a: Storage, b: Storage, elements: Size, split: Split = "tensor", *, casts: bool = True
    ) -> Storage:
        """A matrix product of two activations: keeps each where the other needs a gradient.

        casts: whether autocast sees it, and not only the kernel that it is part of.
        """
        if self.settings.autocast and casts:
            a, b = self.cast(a, self.settings.dtype), self.cast(b, self.settings.dtype)
        self._keep_factors(a, b)
        return Storage(elements, a.dtype, _any_grad(a, b), split)

    def times(self, a: Storage, b: Storage) -> Storage:
        """Element by element, b perhaps broadcast: keeps each where the other needs a gradient."""
        self._keep_factors(a, b)
        return self.like(a, b)

    def _keep_factors(self, a: Storage, b: Storage) -> None:
        if b.grad:
            self.keep(a, "factor")
        if a.grad:
            self.keep(b, "factor")

    def reads_input(self, x: Storage) -> Storage:
        """A function of one tensor whose derivative reads its input (silu, gelu, a power)."""
        if x.grad:
            self.keep(x, "input")
        return self.like(x)

    def reads_result(self, x: Storage, dtype: str | None = None) -> Storage:
        """A function of one tensor whose derivative reads its result (softmax, tanh, sigmoid, relu, rsqrt)."""
        y = self.like(x, dtype=dtype)
        if x.grad:
            self.keep(y, "result")
        return y

    def power(self, x: Storage) -> Storage:
        """x to a constant power."""
        return self.reads_input(self.cast(x, "fp32") if self.settings.autocast_on_gpu else x)

    def drop(self, x: Storage) -> Storage:
        """Dropout: keeps the mask, a byte an element, or on the CPU a number like x's."""
        if not self.settings.dropout:
            return x
        if x.grad:
            mask = "bool" if self.settings.device == "cuda" else x.dtype
            self.keep(Storage(x.elements, mask, False, x.split), "dropout mask")
        return self.like(x)


def _any_grad(*tensors: Storage) -> bool:
    return any(tensor.grad for tensor in tensors)
