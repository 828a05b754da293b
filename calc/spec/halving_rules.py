"""What a stack whose vectors become fewer, and perhaps as many as before again, must be like."""

from __future__ import annotations

from calc.errors import Refused
from calc.spec.fronts import Embedding
from calc.spec.funnel import FunnelAttention
from calc.spec.stack_fields import StackFields


def halves(stack: StackFields) -> None:
    halved = [group.halved for group in stack.layers if group.halved is not None]
    mixers = [group.mixer for group in stack.layers]
    funnel = [mixer for mixer in mixers if isinstance(mixer, FunnelAttention)]
    if not halved and not funnel:
        if any(group.upsampled for group in stack.layers):
            raise Refused("upsampled", "false in a stack that halves nothing", True)
        return
    plain = (stack.schedule, stack.per_layer, stack.n_streams, stack.altup, stack.pool, stack.pyramid)
    if any(each is not None for each in plain) or not isinstance(stack.embedding, Embedding):
        raise Refused("halved", "none, unless tokens are read by plain layers, one group behind another", "some")
    if len(funnel) < len(mixers) or stack.layers[0].halved is not None:
        raise Refused("mixer", "funnel_attention in all layers, which the first ones read as many as tokens", "others")
    if len({(one.how, one.first_apart, one.cut) for one in halved}) > 1:
        raise Refused("halved", "alike everywhere", "different ones")
    apart = {one.first_apart for one in halved} | {mixer.first_apart for mixer in funnel}
    if len(apart) > 1 or len({mixer.factorized for mixer in funnel}) > 1:
        raise Refused("first_apart", "alike in all layers and halvings, and factorized too", "different ones")
    for group in stack.layers:
        unhalved = isinstance(group.mixer, FunnelAttention) and group.mixer.unhalved
        if unhalved and (group.halved is None or (isinstance(group.count, int) and group.count > 1)):
            raise Refused("unhalved", "false, but in one layer behind a halving", True)
    up = [i for i, group in enumerate(stack.layers) if group.upsampled]
    if len(up) > 1 or (up and (up[0] == 0 or any(group.halved is not None for group in stack.layers[up[0] :]))):
        raise Refused("upsampled", "one group of layers behind all halvings", "others")


def passes_again(stack: StackFields) -> None:
    for i, group in enumerate(stack.layers):
        if not group.again:
            continue
        if i == 0 or stack.schedule is not None:
            raise Refused("again", "false, unless a group stands before it, one behind another", True)
        before = stack.layers[i - 1]
        alike = {"name": group.name, "count": group.count, "halved": None, "again": True}
        if isinstance(before.mixer, FunnelAttention):
            alike["mixer"] = before.mixer.model_copy(update={"unhalved": False})
        if not group.shared or before.model_copy(update=alike) != group:
            raise Refused("again", "false, unless all layers of both groups are one, passed behind a halving", True)
