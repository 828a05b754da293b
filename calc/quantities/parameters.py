"""Parameters: elements of every distinct weight tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import get_args

from calc.blocks.build import weighed
from calc.sizes import Size, as_int, exact_div
from calc.spec import ModelSpec
from calc.trace.op import Component, Weight
from calc.trace.part import Leaf, leaves

Row = tuple[str, Weight, Leaf]


def weights(spec: ModelSpec, *, mtp: bool = False) -> Iterator[Row]:
    """(path, weight, leaf) of every distinct tensor; `{}` in a path stands for the number of a copy.

    A tensor that two ops share, such as a tied embedding, comes once, where it is met first. mtp: those of the modules
    that predict further tokens too.
    """
    seen: set[str] = set()
    for leaf in leaves(weighed(spec, mtp=mtp)):
        prefix = leaf.path.rpartition(".")[0]
        for weight in leaf.op.weights:
            path = weight.key[1:] if weight.key.startswith("/") else f"{prefix}.{weight.key}" if prefix else weight.key
            if path not in seen:
                seen.add(path)
                yield path, weight, in_one_layer(leaf) if weight.common else leaf


def in_one_layer(leaf: Leaf) -> Leaf:
    """`leaf` as it stands in the first layer of its group alone."""
    at = next(i for i, part in enumerate(leaf.parents) if part.layer)
    layer = leaf.parents[at]
    first = replace(layer, copies=1, indices=None if layer.indices is None else layer.indices[:1])
    copies, active = (exact_div(n, layer.copies) for n in (leaf.copies, leaf.active))
    return leaf._replace(copies=copies, active=active, parents=(*leaf.parents[:at], first, *leaf.parents[at + 1 :]))


def parameters(spec: ModelSpec, *, active: bool = False, trainable: bool = False, mtp: bool = False) -> dict[str, Size]:
    """Elements by component, in the order of `calc.trace.op.Component`; they sum to the total, tied weights once.

    active: count only the routed experts that one token visits, routed * top_k / n_experts.
    mtp: count the modules that predict further tokens too, as a component of their own.
    trainable: leave out frozen tensors: all but an adapter's where there is one, and those that are never trained.
    """
    totals: dict[str, Size] = {}
    for _, weight, leaf in weights(spec, mtp=mtp):
        if trainable and not weight.trainable:
            continue
        elements = as_int(weight.elements * (leaf.active if active else leaf.copies))
        component = leaf.component or weight.component
        totals[component] = totals.get(component, 0) + elements
    return {name: totals[name] for name in get_args(Component) if name in totals}


def by_tower(components: Mapping[str, Size], active: Mapping[str, Size]) -> dict[str, Size]:
    """`text`, `active_text`, and `vision` or `audio` of a model with such towers, their projectors in them; else empty.

    components, active: its parameters by component, all and those that a token visits.
    """
    towers = {name: components[name] for name in ("vision", "audio") if name in components}
    if not towers:
        return {}
    text, visited = (sum(counted.values()) - sum(towers.values()) for counted in (components, active))
    return {"text": text, "active_text": visited, **towers}


def parameter_shapes(spec: ModelSpec, *, mtp: bool = False) -> dict[str, tuple[int, ...]]:
    """Shape of every parameter tensor by its full path, layers and experts numbered from 0."""
    return {full: weight.shape for path, weight, leaf in weights(spec, mtp=mtp) for full in _numbered(path, leaf)}


def _numbered(path: str, leaf: Leaf) -> Iterator[str]:
    """`path` once for each copy, its braces replaced by the copies' numbers."""
    repeated = [part for part in leaf.parents if "{" in part.name]
    pieces = path.split(".")
    holes = [i for i, piece in enumerate(pieces) if piece.startswith("{")]
    for numbers in product(*(part.indices or range(part.copies) for part in repeated)):
        for hole, number in zip(holes, numbers, strict=True):
            pieces[hole] = str(number)
        yield ".".join(pieces)
