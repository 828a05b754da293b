"""What a stack's stream asks of its layers."""

from __future__ import annotations

from calc.errors import Refused
from calc.spec.stack_fields import StackFields


def in_fp32(stack: StackFields) -> None:
    """Of a stream in fp32 it is known what norms before the blocks read, and nothing else."""
    if not getattr(stack.embedding, "wide", False):
        return
    streams = stack.n_streams or stack.altup or stack.per_layer
    plain = all(group.placement == "pre" and group.first_norm and not group.shared_block for group in stack.layers)
    others = ("laurel", "beside", "out_norm", "out_scale", "convolution", "residual", "cross", "merge", "ngrams")
    if streams or not plain or any(getattr(group, name) for group in stack.layers for name in others):
        raise Refused("embedding.wide", "false, unless norms stand before the blocks alone", True)
    reads = any(getattr(group.channel, name, None) for group in stack.layers for name in ("dense_norm", "late"))
    if stack.final_norm is None or reads:
        raise Refused("embedding.wide", "false, unless norms alone read the stream", True)
