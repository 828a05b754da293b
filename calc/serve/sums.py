"""What tensor-parallel ranks of a server sum in a pass, from its recorded program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from calc.serve.layout import Layout
from calc.trace.part import Leaf

NARROW = 2
"""Bytes of a number that passes between kernels; what norms know of a vector is in fp32, two of these."""


class Sum(NamedTuple):
    """One result of a layer of which each rank has a part. width: of a token, numbers of 16 bits. calls: in a pass.
    groups: of a norm, the shares of a vector that are normed each for itself, which more ranks than these sum."""

    width: float
    calls: float
    groups: float = 0.0


def sums_of(new: Iterable[Leaf], d_model: float) -> Iterator[Sum]:
    """Of every matrix that ranks divide by columns what it gives, once for all experts of a block and what stands
    beside them (vllm-project/vllm, model_executor/layers/fused_moe/layer.py), and what a norm of heads of several ranks
    knows of a vector (mamba/mamba_mixer2.py there)."""
    leaves = list(new)
    routed, counted = {_block(leaf) for leaf in leaves if leaf.expert}, set[int]()
    for leaf in leaves:
        op, block = leaf.op, _block(leaf)
        if op.groups is not None:
            yield Sum(2.0 * float(op.groups), float(leaf.calls), float(op.groups))
        if not any(weight.shard is not None and weight.shard.axis == 1 for weight in op.weights):
            continue
        if block not in routed:
            yield Sum(float(op.outputs[0].width), float(leaf.calls))
        elif block not in counted:
            counted.add(block)
            yield Sum(d_model, float(leaf.calls))


def summed(sums: Iterable[Sum], layout: Layout) -> tuple[float, float]:
    """(sums of a pass, bytes of one token of them on average)."""
    own = [each for each in sums if (layout.tp > each.groups if each.groups else layout.wide > 1)]
    calls = sum(each.calls for each in own)
    return calls, NARROW * sum(each.width * each.calls for each in own) / calls if calls else 0.0


def _block(leaf: Leaf) -> int:
    """Which block of a layer a leaf stands in."""
    return next((id(part) for part in reversed(leaf.parents) if part.region is not None), 0)
