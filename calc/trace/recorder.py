"""Records ops in the order they run, in the parts that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from calc.sizes import Size
from calc.spec import Adapter, Lora
from calc.trace.functions import Function, Recurrence
from calc.trace.op import Component, Keeps, Kind, Op, Weight
from calc.trace.part import Part
from calc.trace.tensor import Kernel, Split, Tensor

Body = list[Part | Op]


class Recorder:
    """What has been recorded so far.

    body: of the part at hand. component: what its weights are reported as, unless an op says otherwise.
    whole: the adapter of the model, or None; frozen: whether no weight but its own is trained; adapter: the one that
    stands in the layers at hand.
    common: whether its weights are one set for all layers of the group, but for low-rank updates.
    dead: whether what is recorded passes no gradient at all. clamps: whether a layer's matrices clamp what they read
    and give. holding, returning: what names in the part at hand hold, and what it gives back beside its outputs, as
    `Part` has them. inside: as that of the tensors that are made. recurrence, of_module: as those of the
    ops that are recorded.
    """

    __slots__ = (
        "adapter",
        "body",
        "clamps",
        "common",
        "component",
        "dead",
        "frozen",
        "holding",
        "inside",
        "of_module",
        "recurrence",
        "returning",
        "whole",
    )

    def __init__(self, adapter: Adapter | None = None) -> None:
        self.body: Body = []
        self.component: Component = "other"
        self.whole = adapter
        self.frozen = adapter is not None
        self.adapter: Adapter | None = None
        self.common = False
        self.dead = False
        self.clamps = False
        self.holding: list[Tensor] = []
        self.returning: list[Tensor] = []
        self.inside: Kernel | None = None
        self.recurrence: Recurrence | None = None
        self.of_module: str | None = None

    @contextmanager
    def part(
        self,
        name: str,
        *inputs: Tensor,
        of: Component | None = None,
        region: str | None = None,
        **fields: Any,
    ) -> Iterator[list[Tensor]]:
        """What is recorded inside stands in a part of that name; what it yields is the list of what goes out.

        inputs: what comes in. of: the component of weights inside. region, fields: as those of `Part`; where no
        gradient passes, nothing is computed again.
        """
        body, component, names = self.body, self.component, (self.holding, self.returning)
        module, self.of_module = self.of_module, None
        outputs: list[Tensor] = []
        self.body, self.holding, self.returning = [], [], []
        if of is not None:
            self.component = of
        try:
            yield outputs
            made, outs = tuple(self.body), tuple(outputs)
            fields |= {"holds": tuple(self.holding), "returns": tuple(self.returning)}
        finally:
            self.body, self.component = body, component
            self.holding, self.returning = names
            self.of_module = module
        if not self.dead:
            fields["module"] = module
        region = None if self.dead else region
        self.body.append(Part(name, made, region=region, inputs=inputs, outputs=outs, **fields))

    def hold(self, *tensors: Tensor) -> None:
        """Names of the part at hand hold these until it ends, where it is run operator by operator."""
        self.holding += tensors

    def give_back(self, *tensors: Tensor) -> None:
        """The part at hand gives these back beside its outputs, and a name holds them until the layer ends."""
        self.returning += tensors

    @contextmanager
    def one_kernel(self, execution: Kernel, recurrence: Recurrence | None = None) -> Iterator[None]:
        """What is made inside does not leave one kernel, from that execution on. recurrence: how engines call it."""
        before = self.inside, self.recurrence
        self.inside, self.recurrence = execution, recurrence
        try:
            yield
        finally:
            self.inside, self.recurrence = before

    @contextmanager
    def module(self, name: str | None) -> Iterator[None]:
        """What is recorded inside belongs to a module that can be computed again by itself; None: to none of its own.
        What a part holds belongs to it as the part does."""
        before = self.of_module
        self.of_module = name or before
        try:
            yield
        finally:
            self.of_module = before

    @contextmanager
    def trained(self) -> Iterator[None]:
        """What is recorded inside is an adapter's own: it is trained, each layer's own, and not adapted itself."""
        before = self.frozen, self.adapter, self.common
        self.frozen, self.adapter, self.common = False, None, False
        try:
            yield
        finally:
            self.frozen, self.adapter, self.common = before

    @contextmanager
    def in_common(self, updates: Lora | None) -> Iterator[None]:
        """What is recorded inside has one set of weights for all layers of a group, but for `updates` of each."""
        before = self.adapter, self.common
        self.adapter, self.common = updates, True
        try:
            yield
        finally:
            self.adapter, self.common = before

    @contextmanager
    def without_gradient(self) -> Iterator[None]:
        """What is recorded inside passes no gradient, so that nothing of it is kept, and is not adapted."""
        dead, adapter = self.dead, self.adapter
        self.dead, self.adapter = True, None
        try:
            yield
        finally:
            self.dead, self.adapter = dead, adapter

    def captured(self, run: Callable[[], Tensor]) -> tuple[tuple[Part | Op, ...], Tensor]:
        """What `run` records, kept apart, and its result."""
        body, self.body = self.body, []
        try:
            result = run()
            return tuple(self.body), result
        finally:
            self.body = body

    def weight(self, key: str, *shape: Size, of: Component | None = None, **fields: Any) -> Weight:
        """A weight of the op that is recorded next; frozen where only adapters are trained."""
        fields["trainable"] = fields.get("trainable", True) and not self.frozen
        return Weight(key, shape, of or self.component, common=self.common, **fields)

    def made(
        self, rows: Size, width: Size, *sources: Tensor, weights: tuple[Weight, ...] = (), split: Split = "stream"
    ) -> Tensor:
        """A new tensor, made of `sources` and `weights`."""
        grad = not self.dead and (any(x.grad for x in sources) or any(weight.trainable for weight in weights))
        return Tensor(rows, width, grad, split, inside=self.inside)

    def op(
        self,
        name: str,
        kind: Kind,
        function: Function,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        *,
        weights: tuple[Weight, ...] = (),
        of: Component | None = None,
        keeps: Keeps | None = None,
        backward: Size | None = None,
        live: bool | None = None,
        recurrence: Recurrence | None = None,
        **fields: Any,
    ) -> Op:
        """Record one op. fields: as those of `Op`; what of it backward passes follows from its inputs and weights.

        live: whether backward passes it, where that is so of several ops together.
        """
        grads = [x.grad for x in inputs]
        trains = any(weight.trainable for weight in weights)
        if live is None:
            live = not self.dead and (any(grads) or trains)
        for x in inputs:
            x.storage.readers += 1
        if kind == "attention" and backward is None and (not live or not all(grads)):
            backward = sum(grads) * fields.get("flops", 0) if live else 0
        recorded = Op(
            name,
            kind,
            of or self.component,
            weights=weights,
            input_grad=live and bool(grads) and grads[0],
            backward=backward if live else 0,
            live=live,
            function=function,
            inputs=inputs,
            outputs=outputs,
            keeps=None if self.dead else keeps,
            recurrence=recurrence or self.recurrence,
            module=None if self.dead else self.of_module,
            **fields,
        )
        self.body.append(recorded)
        return recorded

    def silent(
        self, name: str, inputs: tuple[Tensor, ...], output: Tensor, keeps: Keeps, *, reads: bool = False
    ) -> Tensor:
        """Record what autograd keeps of something for which no kernel is counted.

        reads: whether it makes a tensor of its own of its inputs, and so is a reader of them; a view is none.
        """
        for x in inputs if reads else ():
            x.storage.readers += 1
        own, module = (None, None) if self.dead else (keeps, self.of_module)
        made = Op(name, "elementwise", "other", inputs=inputs, outputs=(output,), keeps=own, silent=True, module=module)
        self.body.append(made)
        return output
