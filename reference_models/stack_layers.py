"""The layers of a stack, in the order they run, and what they lend one another."""

from __future__ import annotations

from calc.spec import Node, Stack
from reference_models.blocks.shared_block import SharedBlock
from reference_models.layer import Layer
from reference_models.layer_streams import add_streams, alternate


def layers_of(spec: Stack, d_source: int) -> list[Layer]:
    """The layers in the order they run; a group that shares its weights is one layer in several places."""
    groups = {group.name: group for group in spec.layers}
    order = spec.schedule or tuple(group.name for group in spec.layers for _ in range(group.count))
    shared: dict[str, Layer] = {}
    blocks: dict[str, SharedBlock] = {}
    made: list[Layer] = []
    widths = spec.widths
    for name in order:
        if groups[name].again and name not in shared:
            shared[name] = made[-1]
        layer = shared.get(name) or Layer(groups[name], widths[name], d_source)
        if groups[name].shared:
            shared[name] = layer
        if groups[name].shared_block is not None:
            layer.shared_block.take(blocks.setdefault(name, layer.shared_block))
        made.append(layer)
    for layer in dict.fromkeys(made):
        if spec.per_layer is not None:
            layer.read_own(spec.per_layer, spec.d_model)
        if spec.n_streams is not None:
            add_streams(layer, spec.n_streams, spec.stream_mixing, spec.d_model)
        if spec.altup is not None:
            alternate(layer, spec.altup, spec.d_model)
    return made


def borrows(node: Node | None) -> bool:
    """Whether it takes keys and values, values alone, or what a router made, of a layer before it, or gives the next
    one what its experts make."""
    some = getattr(node, "value_rank", None), getattr(node, "deep_router", None), getattr(node, "late", False) or None
    return getattr(node, "kv", "own") == "earlier" or any(each is not None for each in some)
