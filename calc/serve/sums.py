"""What tensor-parallel ranks of a server sum in a pass, from its recorded program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from calc.trace.part import Leaf


class Sum(NamedTuple):
    """One result of a layer of which each rank has a part. width: numbers of a token. calls: in a pass. routed: whether
    experts gave it."""

    width: float
    calls: float
    routed: bool = False


def sums_of(new: Iterable[Leaf], d_model: float) -> Iterator[Sum]:
    """What every matrix that ranks divide by columns gives, once for all experts of a block and what stands beside them
    (vllm-project/vllm, model_executor/layers/fused_moe/layer.py). Left out, as constants were fitted without it: the
    few numbers that ranks sum of a vector that is normed over heads of several (MiniMax-M2, Falcon-H1). Blocks side by
    side are summed one by one, as vLLM does for GPT-J, GPT-NeoX and Phi; of Falcon it sums both at once."""
    leaves = list(new)
    routed, counted = {_block(leaf) for leaf in leaves if leaf.expert}, set[int]()
    for leaf in leaves:
        op, block = leaf.op, _block(leaf)
        if not any(weight.shard is not None and weight.shard.axis == 1 for weight in op.weights):
            continue
        if block not in routed:
            yield Sum(float(op.outputs[0].width), float(leaf.calls))
        elif block not in counted:
            counted.add(block)
            yield Sum(d_model, float(leaf.calls), True)


def on_average(sums: Iterable[Sum]) -> tuple[float, float]:
    """(sums of a pass, numbers of one token of them)."""
    widths = [(each.width * each.calls, each.calls) for each in sums]
    calls = sum(calls for _, calls in widths)
    return calls, sum(width for width, _ in widths) / calls if calls else 0.0


def _block(leaf: Leaf) -> int:
    """Which block of a layer a leaf stands in."""
    return next((id(part) for part in reversed(leaf.parents) if part.region is not None), 0)
