"""What of an op one rank runs: how tensor, context and expert parallelism divide its product and its operands."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calc.memory.sharding import held_elements
from calc.spec.run import Run
from calc.trace.functions import Attend, Matmul
from calc.trace.op import Cache
from calc.trace.part import Leaf, Part
from calc.trace.shard import VOCABULARY
from calc.trace.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Share:
    """A rank's part of one op: factors on its FLOPs, on what it reads and writes, on its weights, and its product.

    keys: of attention, the factor on the keys and values among what it reads, and on those that are cached; None as
    `reads`. cached: on those that are cached where that is another: of latents each rank reads and keeps all.
    """

    flops: float = 1.0
    reads: float = 1.0
    writes: float = 1.0
    weights: float = 1.0
    shape: Matmul | Attend | None = None
    keys: float | None = None
    cached: float | None = None

    @property
    def of_keys(self) -> float:
        """The factor on keys and values."""
        return self.reads if self.keys is None else self.keys

    @property
    def of_cache(self) -> float:
        """The factor on what is read and kept of what is cached."""
        return self.of_keys if self.cached is None else self.cached

    def read(self, leaf: Leaf, reads: float) -> float:
        """Of `reads` elements that the kernel beginning with an op reads, those that a rank does."""
        return reads * self.reads + _keys_among(leaf, reads) * (self.of_keys - self.reads)


def share_of(leaf: Leaf, plan: Run) -> Share:
    """What one rank runs of each call of an op; all of it on one."""
    if plan.tp * plan.cp * plan.ep == 1:
        return Share(shape=leaf.op.shape)
    rows = 1 / plan.cp
    shape = leaf.op.shape
    if isinstance(shape, Attend):
        return _attention(shape, plan, leaf.op.cache)
    if isinstance(shape, Matmul):
        return _product(leaf, shape, plan)
    if plan.tp > 1 and _looks_up(leaf):
        # A rank makes vectors of all tokens, whose parts are summed, and then writes zeros for rows of another's.
        return Share(rows, rows, rows * (2 - 1 / plan.tp), 1.0, None)
    if leaf.expert:
        rows = rows / plan.folded * _columns(leaf, plan.expert_pieces)
    elif plan.divides_sequence and (_between_blocks(leaf) or _around_whole_experts(leaf, plan)):
        rows = rows / plan.tp
    else:
        rows = rows * _columns(leaf, plan.tp)
    return Share(rows, rows, rows, _of_weights(leaf, plan), None)


def _looks_up(leaf: Leaf) -> bool:
    """Whether an op looks up rows of a table that ranks divide."""
    return leaf.op.function == "gather" and any(weight.shard is VOCABULARY for weight in leaf.op.weights)


def _of_weights(leaf: Leaf, plan: Run) -> float:
    """The part of an op's weights that a rank reads: of a matrix whose results are summed all of the bias."""
    weights = leaf.op.own_or_lent
    if not any(weight.shard is not None for weight in weights):
        return 1.0
    held = sum(float(held_elements(weight, plan, leaf.expert)) for weight in weights)
    return held / sum(float(weight.elements) for weight in weights)


def _columns(leaf: Leaf, tp: int) -> float:
    """The part of what an op makes that a tensor-parallel rank has: heads of keys are shared by ranks beyond them."""
    made = leaf.op.outputs
    if not any(x.split in ("tensor", "kv", "vocab") for x in made):
        return 1.0
    whole = sum(float(x.elements) for x in made)
    return sum(float(x.elements) * _part(x, tp) for x in made) / whole if whole else 1.0


def _part(x: Tensor, tp: int) -> float:
    if x.split == "tensor" and x.grouped:
        grouped = float(x.grouped) / float(x.elements)
        return (1 - grouped) / tp + grouped / min(tp, x.heads)
    return {"tensor": 1 / tp, "vocab": 1 / tp, "kv": 1 / min(tp, x.heads)}.get(x.split, 1.0)


def _between_blocks(leaf: Leaf) -> bool:
    """Whether an op stands between blocks, where tensor-parallel ranks may divide the sequence among them."""
    return not any(part.region is not None for part in leaf.parents)


def _around_whole_experts(leaf: Leaf, plan: Run) -> bool:
    """Whether an op stands beside routed experts that no rank cuts: then a rank chooses for its own tokens, and sends
    and weighs them."""
    inside = leaf.parents[-1].body if leaf.parents else ()
    return plan.folded != 1 and any(isinstance(each, Part) and each.expert for each in inside)


def _product(leaf: Leaf, shape: Matmul, plan: Run) -> Share:
    """A matrix divided by columns (all read, a part written), or by rows (a part read, all written). Without one, or
    with one of its own for each head, a rank has its heads of all that is multiplied."""
    if not shape.weighed:
        part = _columns(leaf, plan.tp)
        own = replace(shape, m=shape.m / plan.cp, groups=shape.groups * part)
        each = part / plan.cp
        return Share(each, each, each, _of_weights(leaf, plan), own)
    weight = leaf.op.own_or_lent[0] if leaf.op.own_or_lent else None
    part = 1.0 if weight is None else held_elements(weight, plan, leaf.expert) / weight.elements
    by_rows = weight is not None and weight.shard is not None and weight.shard.axis == 1
    # Whole experts meet the tokens of all ranks that divide the stream, each its own.
    rows = 1 / plan.cp / (plan.tp if _around_whole_experts(leaf, plan) else plan.folded if leaf.expert else 1)
    m, groups, experts = shape.m * rows, shape.groups, 1.0
    if leaf.op.in_parts and not by_rows:
        # Each head, or group of heads, has a matrix of its own: a rank reads and writes those that are its.
        own = replace(shape, m=m, groups=groups * part)
        return Share(part * rows, part * rows, part * rows, part, own)
    if plan.ep > 1 and leaf.expert:
        # Tokens of all ranks meet at the experts' owners: as many visits as before, of fewer experts.
        experts = 1 / plan.ep
        m, groups = m / experts, max(groups * experts, 1)
    own = replace(
        shape,
        m=m,
        n=shape.n if by_rows else shape.n * part,
        k=shape.k * part if by_rows else shape.k,
        groups=groups,
    )
    reads, writes = (part, 1.0) if by_rows else (1.0, part)
    return Share(part * rows, reads * rows, writes * rows, _of_weights(leaf, plan) * experts, own)


def _attention(shape: Attend, plan: Run, cache: Cache | None) -> Share:
    """Heads over tensor-parallel ranks, queries over context-parallel ones; keys and values of all are gathered, and
    those of one head stand on every rank that has some of its queries."""
    heads, groups = shape.heads, shape.groups
    parts = max(groups / plan.tp, plan.batch)
    own = replace(shape, groups=parts, heads=heads * groups / plan.tp / parts, queries=shape.queries / plan.cp)
    part = 1 / (plan.tp * plan.cp)
    # An encoder whose work is done has no sequences left.
    cached = None if cache is None else 1 / min(plan.tp, cache.heads)
    return Share(part, part, part, 1.0, own, keys=parts / groups if groups else 1.0, cached=cached)


def _keys_among(leaf: Leaf, reads: float) -> float:
    """Of what a kernel of attention reads, the elements of keys and values: all but queries, or but their weights."""
    shape = leaf.op.shape
    if not isinstance(shape, Attend):
        return 0.0
    width = shape.keys if leaf.op.function == "values" else shape.d_head
    return max(reads - float(shape.groups * shape.heads * shape.queries * width), 0.0)
