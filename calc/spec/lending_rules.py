"""What a stack's layers have to agree on to read of earlier ones more than the stream."""

from __future__ import annotations

from itertools import pairwise

from calc.errors import Refused
from calc.spec.attention import Attention
from calc.spec.deep_router import DeepRouter
from calc.spec.experts import Moe
from calc.spec.latent import Mla
from calc.spec.rwkv7 import Rwkv7
from calc.spec.stack_fields import StackFields


def lent(stack: StackFields) -> None:
    """What a layer takes of an earlier one has to be there: keys and values, and the tokens that one has chosen."""
    of_name = {group.name: group.mixer for group in stack.layers}
    lenders: set[int | str | None] = set()
    chooses = values = False
    for name in stack.schedule or of_name:
        mixer = of_name[name]
        if isinstance(mixer, Attention) and mixer.kv != "earlier":
            lenders.add(mixer.window)
        elif isinstance(mixer, Attention) and mixer.window not in lenders:
            raise Refused("kv", "a layer before it with keys and values of its own, of the same window", "earlier")
        if isinstance(mixer, Rwkv7) and mixer.value_rank is None:
            values = True
        elif isinstance(mixer, Rwkv7) and not values:
            raise Refused("value_rank", "a layer before it whose values it mixes in (value_rank none)", "none")
        if isinstance(mixer, Mla) and mixer.kv == "own":
            lenders.add(mixer.position)
        elif isinstance(mixer, Mla) and mixer.position not in lenders:
            raise Refused("kv", "a layer before it with latents of its own, of the same position", "earlier")
        if isinstance(mixer, Mla):
            chooses = chooses or mixer.indexer is not None
            if mixer.top_k is not None and not chooses:
                raise Refused("indexer", "one in this layer or in one before it, beside top_k", None)


def carries_on(stack: StackFields) -> None:
    """A router that reads what the one before it made has one before it, as wide."""
    of_name = {group.name: getattr(group.channel, "deep_router", None) for group in stack.layers}
    before: DeepRouter | None = None
    for name in stack.schedule or of_name:
        router = of_name[name]
        if router is not None and router.carries and (before is None or before.d_router != router.d_router):
            raise Refused("deep_router.carries", "false without a router as wide in a layer before it", True)
        before = router or before


def late(stack: StackFields) -> None:
    """What experts give late needs a layer behind theirs, and none that does so itself."""
    late = {group.name: isinstance(group.channel, Moe) and group.channel.late for group in stack.layers}
    order = stack.schedule or tuple(group.name for group in stack.layers for _ in range(group.count))
    if not any(late.values()):
        return
    if late[order[-1]] or any(late[a] and late[b] for a, b in pairwise(order)):
        raise Refused("late", "false in the last layer, and in the next behind one where it is true", True)
    behind = {b for a, b in pairwise(order) if late[a]}
    if any(b in behind and not late[a] for a, b in pairwise(order)) or order[0] in behind:
        raise Refused("layers", "a kind of their own for those behind experts whose results are late", "others too")
    joins = {"n_streams": stack.n_streams, "altup": stack.altup}
    if others := [name for name, value in joins.items() if value is not None]:
        raise Refused("late", f"false beside {others[0]}", True)
    if any(group.placement != "pre" or group.macaron or group.shared for group in stack.layers):
        raise Refused("late", "false, unless norms stand before the blocks of layers with weights of their own", True)
