"""The record of one pass as kernels are made of it: its ops, which of them run as one, and how products are joined.

All that the ranks which divide a model leave alone, so that every way to divide it reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import NamedTuple

from calc.blocks.build import build
from calc.quantities.chains import Chain, chains, rerun
from calc.spec import ModelSpec
from calc.spec.cache_key import CacheKey
from calc.spec.load import Load
from calc.spec.run import Kernels, Run
from calc.time.step.rank_share import Share
from calc.trace.functions import Matmul
from calc.trace.part import Leaf, leaves
from calc.trace.shard import VOCABULARY

NumberedChain = tuple[int, Chain]
"""Ops that run as one kernel, and a number by which the same ops are known among all chains of a record."""


class Joint(NamedTuple):
    """How a product is joined to its neighbours; as the fields of `Kernel`."""

    again: bool
    cut: bool
    heads: bool
    logits: bool


class Record:
    """The ops of one load that are called at all. shares: what ranks run of an op, each with a number."""

    def __init__(self, everything: Iterable[Leaf]) -> None:
        self.leaves = [leaf for leaf in everything if leaf.calls]
        self.shares: dict[Share, int] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        self._chains: dict[tuple[str, ...], list[NumberedChain]] = {}

    @cached_property
    def joints(self) -> dict[int, Joint]:
        """How each product with a weight is joined to others, by its leaf."""
        return joints(self.leaves)

    @cached_property
    def in_experts(self) -> set[int]:
        """The leaves that stand in a part of which every expert has one."""
        return {id(leaf) for leaf in self.leaves if any(part.expert for part in leaf.parents)}

    def forward(self, kernels: Kernels) -> list[NumberedChain]:
        """The chains of the way there."""
        return self._known(("forward", kernels), self.leaves, kernels)

    def again(self, run: Run) -> list[NumberedChain]:
        """The chains that checkpointing runs once more."""
        if (key := ("again", run.checkpointing, run.kernels, *sorted(run.recompute))) in self._chains:
            return self._chains[key]
        return self._known(key, rerun(self.leaves, run), run.kernels)

    def back(self, kernels: Kernels) -> list[NumberedChain]:
        """The chains that something trained needs a way back through."""
        return self._known(("back", kernels), [leaf for leaf in self.leaves if leaf.op.live], kernels)

    def _known(self, key: tuple[str, ...], some: list[Leaf], kernels: Kernels) -> list[NumberedChain]:
        if key not in self._chains:
            self._chains[key] = [(self._number(chain), chain) for chain in chains(some, kernels)]
        return self._chains[key]

    def _number(self, chain: Chain) -> int:
        return self._numbers.setdefault(tuple(map(id, chain)), len(self._numbers))


def record_of(spec: ModelSpec, run: Run) -> Record:
    """The ops of one pass. Scores are counted as they run: whole squares in the open, what the mask keeps in a kernel
    made for attention."""
    decode = run.phase == "decode"
    load = run.load(
        seq=run.new_tokens,
        context=run.context if decode else 0,
        scores="full" if run.kernels == "eager" else "causal-exact",
        decode=decode,
        absorbed=decode and run.absorbs,
    )
    return _recorded(CacheKey(spec), load)


def tree_of(spec: ModelSpec, run: Run) -> list[Leaf]:
    """The ops of one pass, as `record_of` has them."""
    return record_of(spec, run).leaves


@lru_cache(maxsize=16)
def _recorded(spec: CacheKey[ModelSpec], load: Load) -> Record:
    """The ops of one load: ranks that divide them differently read the same record."""
    return Record(leaves(build(spec.value, load)))


def place_of(leaf: Leaf) -> str:
    """The name of the group of layers that an op is in, `front` or `end`; all of a tower stands before the layers, and
    modules that predict further tokens beside the head."""
    if leaf.tower is not None:
        return "front"
    if leaf.component == "mtp":
        return "end"
    return leaf.group if leaf.place == "layer" and leaf.group is not None else "end" if leaf.place == "end" else "front"


def joints(everything: list[Leaf]) -> dict[int, Joint]:
    """How each product with a weight is joined to others, by what reads what."""
    pieces = {id(x.base) for leaf in everything for x in leaf.op.inputs if x.base is not None}
    attention = {id(leaf.parents[-1]) for leaf in everything if leaf.op.function == "scores"}
    read: set[int] = set()
    found: dict[int, Joint] = {}
    for leaf in everything:
        op = leaf.op
        if not isinstance(op.shape, Matmul) or not op.shape.weighed:
            continue
        # Layers that are passed in several ways hold their weights in the last of them.
        shard, cut = op.weights[0].shard if op.weights else None, id(op.outputs[0]) in pieces
        heads = shard is not None and shard.axis == 0 and id(leaf.parents[-1]) in attention
        logits = shard is VOCABULARY and leaf.place == "end"
        found[id(leaf)] = Joint(id(op.inputs[0]) in read, cut, heads and not cut, logits)
        read.add(id(op.inputs[0]))
    return found
