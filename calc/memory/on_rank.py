"""What one of the tensor- and context-parallel ranks has of a tensor."""

from __future__ import annotations

from calc.sizes import Size, at_least, ceil_div, is_exactly, minimum
from calc.spec.run import Run
from calc.trace.tape import Saved, Storage, element_bytes


def on_rank(tensor: Storage, plan: Run) -> Size:
    """Bytes of a tensor on one of the tensor- and context-parallel ranks."""
    ranks: Size = plan.cp
    if isinstance(plan.tp, int) and plan.tp == 1:
        return ceil_div(tensor.bytes, ranks)
    if not is_exactly(tensor.grouped, 0):
        grouped = tensor.grouped * element_bytes(tensor.dtype)
        alone = ceil_div(tensor.bytes - grouped, ranks * plan.tp)
        return alone + ceil_div(grouped, ranks * minimum(plan.tp, tensor.heads))
    if tensor.split == "looked up":
        # A rank zeroes the vectors of rows that it has not, and keeps a byte for each that says whether it has it
        # (Megatron-LM's VocabParallelEmbedding).
        return ceil_div(tensor.bytes + tensor.elements * at_least(plan.tp, 2), ranks)
    if tensor.split in ("tensor", "vocab") or (tensor.split == "stream" and plan.divides_sequence):
        ranks = ranks * plan.tp
    elif tensor.split == "visits" and plan.divides_sequence:
        ranks = ranks * plan.folded
    elif tensor.split == "kv":
        ranks = ranks * minimum(plan.tp, tensor.heads)
    return ceil_div(tensor.bytes, ranks)


def saved_on_rank(saved: Saved, run: Run) -> Size:
    """Bytes of what is kept on one rank.

    Autocast's cast of a weight is as large on every context-parallel rank, and else divided as the weight is. What an
    adapter leaves in another format than fp32 is not cast.
    """
    weight, size = saved.tensor.weight, saved.tensor.bytes
    if weight is None:
        return on_rank(saved.tensor, run)
    if run.frozen not in (None, "fp32") and not weight.trainable:
        return 0
    ranks = run.expert_pieces if saved.tensor.expert else run.tp
    if weight.shard is not None and not is_exactly(ranks, 1):
        size = weight.shard.part(size, weight.shape, ranks)
    return ceil_div(size, run.ep) if saved.tensor.expert else size
