"""Experts that run one after another, as a loop over them does: a set of launches for each that any token reaches."""

from __future__ import annotations

from dataclasses import replace

from calc.spec.run import Run
from calc.time.kernels.kernel import Kernel
from calc.trace.functions import TRAITS, Matmul
from calc.trace.part import Leaf


def in_turn(leaves: list[Leaf], plan: Run) -> dict[int, float]:
    """How many experts run each op of a routed block in their turn on one rank, by the op's leaf; empty but for a plan
    whose experts are a loop: those of experts' own, and what looks tokens up for each and adds what it gives."""
    if plan.experts != "loop":
        return {}
    blocks: dict[int, float] = {}
    for leaf in leaves:
        if leaf.expert and isinstance(leaf.op.shape, Matmul):
            blocks[_block(leaf, inside=True)] = float(leaf.op.shape.groups) / plan.ep
    some = [leaf for leaf in leaves if leaf.expert or TRAITS[leaf.op.function].of_experts]
    of = [(leaf, _block(leaf, inside=leaf.expert)) for leaf in some]
    return {id(leaf): blocks[block] for leaf, block in of if block in blocks}


def _block(leaf: Leaf, *, inside: bool) -> int:
    """Which routed block an op stands in. inside: whether it is an expert's own, and not what is around them."""
    return id(leaf.parents[-2 if inside else -1])


def each_alone(kernel: Kernel, times: float) -> Kernel:
    """One expert's part of what a kernel does for `times` of them, as often."""
    if times <= 1:
        return kernel
    shape = replace(kernel.shape, groups=1) if isinstance(kernel.shape, Matmul) else kernel.shape
    return kernel._replace(
        calls=kernel.calls * times,
        flops=kernel.flops / times,
        bytes=kernel.bytes / times,
        traffic=None if kernel.traffic is None else kernel.traffic / times,
        profiled_bytes=None if kernel.profiled_bytes is None else kernel.profiled_bytes / times,
        weight_bytes=None if kernel.weight_bytes is None else kernel.weight_bytes / times,
        shape=shape,
        routed=None,
        within=False,
    )
