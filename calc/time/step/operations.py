"""From the tree of ops to kernels: what runs forward, what once more, and what goes back.

Which ops are one kernel, and what a kernel moves, is as `calc.quantities.chains` counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from calc.quantities.chains import Chain, elements_back, in_fp32, moved
from calc.quantities.flops import of_prompt
from calc.quantities.weights import quantizes
from calc.spec.run import Run
from calc.time.kernels.kernel import Direction, Kernel, pass_bytes, width_of
from calc.time.step.expert_bias import added_apart, behind_experts
from calc.time.step.formats import number_formats
from calc.time.step.in_turn import each_alone, in_turn
from calc.time.step.rank_share import Share, share_of
from calc.time.step.record import NumberedChain, Record, place_of
from calc.time.step.recurrent import recurrent
from calc.time.step.routed import routed
from calc.trace.eager import eager
from calc.trace.functions import ATTENTION_BACK, TRAITS, Attend, Matmul
from calc.trace.part import Leaf

STATE = 4
"""Bytes of an element of recurrent state."""


class ChainRun(NamedTuple):
    """A chain that runs forward, once more, or back. key: all that its kernels depend on of how ranks divide the model
    and of what is recomputed, so that runs which differ in nothing else and have it in common share them. every: of so
    many layers one runs it."""

    chain: Chain
    direction: Direction
    key: tuple[Any, ...]
    every: int = 1


class Operations:
    """The ops of one question and what a rank runs of each. gpu: whether a GPU does, whose list of what autocast takes
    to float32 is longer."""

    def __init__(self, run: Run, record: Record, gpu: bool) -> None:
        self.run, self.record, self.formats = run, record, number_formats(run)
        self.cast = gpu and self.formats.recipe is not None and self.formats.recipe.autocast
        self.shares = {id(leaf): share_of(leaf, run) for leaf in record.leaves}
        numbers = record.shares
        self.numbers = {leaf: numbers.setdefault(share, len(numbers)) for leaf, share in self.shares.items()}
        self.joints = record.joints
        self.merged = self.columns_read_together(record.leaves)
        self.turns = in_turn(record.leaves, run)
        self.biased = behind_experts(record.leaves, run)
        self.laid: dict[tuple[int, ...], Kernel] = {}

    def chain_runs(self) -> Iterator[ChainRun]:
        """What runs, in its order."""
        yield from self.ahead()
        yield from self.again(self.run)
        yield from self.back()

    def ahead(self) -> Iterator[ChainRun]:
        """What runs forward."""
        yield from self._runs("forward", self.record.forward(self.run.kernels))

    def again(self, run: Run) -> Iterator[ChainRun]:
        """What `run` runs once more, which may differ from the own one in what is recomputed, and in that alone."""
        yield from self._runs("recomputed", self.record.again(run) if run.trains else [], run.checkpoint_every)

    def back(self) -> Iterator[ChainRun]:
        """What goes back."""
        yield from self._runs("backward", self.record.back(self.run.kernels) if self.run.trains else [])

    def _runs(self, direction: Direction, some: list[NumberedChain], every: int = 1) -> Iterator[ChainRun]:
        record, run, numbers = self.record, self.run, self.numbers
        for number, chain in some:
            first = id(chain[0])
            ranks = (run.tp, run.ep) if first in record.in_experts else None
            shares = tuple([numbers[id(leaf)] for leaf in chain])
            beside = (self.merged.get(first, 0), self.turns.get(first, 1.0), every)
            yield ChainRun(chain, direction, (direction, number, ranks, shares, beside), every)

    def kernels(self, one: ChainRun) -> list[Kernel]:
        """The kernels of a chain that runs in some direction."""
        if one.direction == "backward":
            found = list(self.backward(one.chain))
        else:
            found = [self.forward(one.chain, one.direction)]
        if id(one.chain[0]) in self.biased:
            elements = float(one.chain[0].op.writes or 0) * self.share(one.chain[0]).writes
            found.append(added_apart(found[0], elements, self.formats.stream))
        if one.every != 1:
            found = [kernel._replace(calls=kernel.calls / one.every) for kernel in found]
        times = self.turns.get(id(one.chain[0]), 1.0)
        return [each_alone(kernel, times) for kernel in found]

    def columns_read_together(self, everything: list[Leaf]) -> dict[int, float]:
        """Columns of all products with weights that read one tensor, but for those of experts, by the leaf of each."""
        total: dict[int, float] = {}
        some = [leaf for leaf in everything if id(leaf) in self.joints and not leaf.expert]
        for leaf in some:
            shape = self.share(leaf).shape
            assert isinstance(shape, Matmul)
            total[id(leaf.op.inputs[0])] = total.get(id(leaf.op.inputs[0]), 0.0) + float(shape.n)
        return {id(leaf): total[id(leaf.op.inputs[0])] for leaf in some}

    def share(self, leaf: Leaf) -> Share:
        return self.shares[id(leaf)]

    def forward(self, chain: Chain, direction: Direction) -> Kernel:
        """A chain as one kernel, called after the op in it that moves the most."""
        known = self.laid.get(key := tuple(map(id, chain)))
        if known is None:
            known = self.laid[key] = self.laid_out(chain, direction)
        return known if known.direction == direction else known._replace(direction=direction)

    def laid_out(self, chain: Chain, direction: Direction) -> Kernel:
        """What `forward` gives, which passes that go once more or back ask for again."""
        kernel = self.named(chain, direction)
        own = self.share(chain[0])
        few = self.part_of_prompt(chain[0])
        reads, writes = moved(chain, 4 / width_of(kernel.dtype))
        streamed = few * (own.read(chain[0], float(reads)) + float(writes) * own.writes) * width_of(kernel.dtype)
        weights = [self.weights(leaf) for leaf in chain]
        resident = sum(size for size, _ in weights) + own.of_cache * self.cached(chain)
        packed = weights[0][0] if weights[0][1] else None
        code = "" if packed is None or self.formats.quantized is None else f"{self.formats.quantized.code}_weights"
        flops = self.flops(chain, few)
        known = self.shape(chain, kernel, few) | self.run_by_pytorch(chain, kernel, resident)
        known["recurrence"] = recurrent(chain, self.run)
        return kernel._replace(flops=flops, bytes=streamed + resident, weight_bytes=packed, packed=code, **known)

    def run_by_pytorch(self, chain: Chain, kernel: Kernel, resident: float) -> dict[str, object]:
        """How many kernels run in the place of an op where nothing is fused, and what they move together. beside: bytes
        of weights and of what is cached."""
        first = chain[0]
        own = self.share(first)
        if self.run.fuses or len(chain) > 1 or own.shape is not None:
            return {}
        width = 4 if any(map(in_fp32, first.op.outputs)) else int(max(width_of(kernel.dtype), 2))
        passes = eager(first.op, width, self.cast)
        return {"launches": passes.kernels, "traffic": float(passes.bytes) * own.writes + resident}

    def cached(self, chain: Chain) -> float:
        """Bytes of keys, values and recurrent state that are read and kept, where anything is kept for later tokens."""
        if self.run.phase not in ("prefill", "decode"):
            return 0.0
        cache = sum(float(leaf.op.cache_reads + leaf.op.cache_writes) for leaf in chain)
        state = sum(float(leaf.op.state_reads + leaf.op.state_writes) for leaf in chain)
        return cache * width_of(self.formats.cache) + state * STATE

    def named(self, chain: Chain, direction: Direction) -> Kernel:
        first = chain[0]
        most = max(chain, key=lambda leaf: float((leaf.op.reads or 0) + (leaf.op.writes or 0)))
        core = len(chain) > 1 and first.op.function == "scores"
        leaf = first if core else most
        traits = TRAITS[leaf.op.function]
        inner = self.formats.compute
        wide = (traits.wide and not core) or width_of(inner) < 2
        return Kernel(
            path=leaf.path,
            component=leaf.component or leaf.op.component,
            function="attention" if core else leaf.op.function,
            direction=direction,
            dtype=self.formats.stream if wide else inner,
            calls=float(leaf.calls),
            sequences=self.run.batch,
            decode=self.run.phase == "decode",
            trains=self.run.trains,
            within=leaf.expert or traits.of_experts,
            place=place_of(leaf),
            backend="" if self.run.stack is None else self.run.stack.attention,
        )

    def part_of_prompt(self, leaf: Leaf) -> float:
        """The part of a leaf's work that is done."""
        return of_prompt(leaf, self.run.seq) if self.run.phase == "prefill" else 1.0

    def shape(self, chain: Chain, kernel: Kernel, few: float) -> dict[str, object]:
        """What products and attention depend on, as fields of a kernel."""
        shape = self.share(chain[0]).shape
        if isinstance(shape, Matmul):
            biased = shape.weighed and len(chain[0].op.weights) > 1
            known: dict[str, object] = {"shape": replace(shape, m=shape.m * few), "biased": biased}
            joint = self.joints.get(id(chain[0]))
            known |= {} if joint is None else joint._asdict()
            known["merged"] = self.merged.get(id(chain[0]), 0)
            known |= {"routed": routed(chain[0], self.run, shape.m * few * shape.groups)}
            # Logits, routers, gates and adapters are as wide as the stream, whatever narrower products layers have.
            narrow = self.run.trains and width_of(self.formats.compute) < 2
            apart = any(not each.narrows or each.component == "adapter" for each in chain[0].op.own_or_lent[:1])
            wide = narrow and ((joint is not None and joint.logits) or apart)
            own = self.formats.stream if wide else self.formats.compute
            return known | ({"dtype": own} if shape.weighed else {})
        if isinstance(shape, Attend):
            cached = width_of(self.formats.cache) / width_of(self.formats.stream)
            return {"shape": shape, "use": "forward" if len(chain) > 1 else "batched", "cached": cached}
        return {}

    def flops(self, chain: Chain, few: float) -> float:
        """FLOPs of one call, as run: in the open, scores of hidden pairs too."""
        shape, op = self.share(chain[0]).shape, chain[0].op
        if isinstance(shape, Attend) and len(chain) == 1:
            width = shape.d_value if op.function == "values" else shape.d_head
            return 2.0 * shape.groups * shape.heads * shape.queries * shape.keys * width
        return sum(float(leaf.op.flops) * self.share(leaf).flops for leaf in chain) * few

    def weights(self, leaf: Leaf) -> tuple[float, bool]:
        """(bytes of weights that one call reads, whether a quantized format packs them)."""
        op, formats, kind = leaf.op, self.formats, self.formats.quantized
        elements = float(op.weights_read) * self.share(leaf).weights
        if kind is not None and op.weights and quantizes(op.weights[0], leaf):
            weight = op.weights[0]
            return elements * kind.matrix_bytes(*weight.shape) / weight.elements, True
        if formats.recipe is not None:
            return elements * width_of(formats.compute if op.shape is not None else formats.weights), False
        return elements * width_of(formats.weights if kind is None else kind.rest), False

    def backward(self, chain: Chain) -> Iterator[Kernel]:
        """What a chain takes going back."""
        leaf, forward = chain[0], self.forward(chain, "backward")
        op, shape = leaf.op, forward.shape
        if isinstance(shape, Matmul):
            yield from self.products_back(leaf, forward, shape)
            return
        if isinstance(shape, Attend) and len(chain) == 1:
            # In the open: products for gradients of queries and keys; of weights, as scores are, and of values.
            yield forward._replace(use="dgrad" if op.function == "values" else "wgrad")
            yield forward._replace(use="wgrad")
            return
        if op.function == "gather" and len(chain) == 1:
            yield from self.table_back(leaf, forward)
            return
        share = self.share(leaf)
        if isinstance(shape, Attend):
            reads, writes = moved(chain, 4 / width_of(forward.dtype))
            size = 2 * (share.read(leaf, float(reads)) + float(writes) * share.writes)
        else:
            size = float(elements_back(chain, 4 / width_of(forward.dtype))) * (share.reads + share.writes) / 2
        size *= width_of(forward.dtype)
        if not size:
            return
        # A kernel for attention computes the scores once more and four products beside the two of forward.
        flops = (ATTENTION_BACK if forward.function == "attention" else 2.0) * forward.flops
        function = "accumulate" if op.function == "add" and len(chain) == 1 else forward.function
        traffic, launches = None, forward.launches
        if forward.traffic is not None and forward.launches > 1:
            # What PyTorch keeps between several kernels, it reads in as many again and more.
            traffic, launches = size * max(forward.traffic / forward.bytes, 1.0), 2 * forward.launches
        yield forward._replace(
            function=function,
            flops=flops,
            bytes=size,
            profiled_bytes=forward.bytes,
            traffic=traffic,
            launches=launches,
        )

    def products_back(self, leaf: Leaf, forward: Kernel, shape: Matmul) -> Iterator[Kernel]:
        """The gradient of the input, g [m, n] x W [n, k]; that of the weight, g' [n, m] x x [m, k]; of the bias."""
        op, stream = leaf.op, self.formats.stream
        trained = not shape.weighed or op.weight_gradients != 0
        if op.input_grad or not shape.weighed:
            yield forward._replace(shape=replace(shape, n=shape.k, k=shape.n), use="dgrad")
        if trained:
            wide = self.formats.recipe.wgrad if shape.weighed and self.formats.recipe is not None else None
            turned = Matmul(shape.n, shape.k, shape.m, shape.groups, shape.weighed)
            yield forward._replace(shape=turned, use="wgrad", dtype=wide or forward.dtype)
        if len(op.weights) > 1 and trained and id(leaf) not in self.biased:
            bytes = pass_bytes("sum", float(op.writes or 0) * self.share(leaf).writes, width_of(stream))
            yield forward._replace(function="sum", shape=None, flops=0.0, dtype=stream, bytes=bytes, weight_bytes=None)

    def table_back(self, leaf: Leaf, forward: Kernel) -> Iterator[Kernel]:
        """The dense gradient of a table: zeros, to which the rows that were read are added."""
        if leaf.op.weight_gradients == 0:
            return
        width, share = width_of(self.formats.gradients), self.share(leaf)
        rows = float(leaf.op.writes or 0) * share.writes * width
        table = float(leaf.op.weight_gradients) * share.weights * width
        yield forward._replace(function="fill", bytes=table, profiled_bytes=None, traffic=None)
        yield forward._replace(bytes=3 * rows, profiled_bytes=2 * rows, traffic=None)
