"""A part of a model: its path in the tree of ops, and quantities of it alone, as folds over the leaves below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import get_args

from calc import conventions
from calc.ask.quantity import Breakdown, Quantity
from calc.blocks.build import build, weighed
from calc.conventions.executed import absorbs
from calc.errors import Refused, did_you_mean
from calc.quantities.flops import of_last, recomputed
from calc.quantities.kv_cache import cache_terms
from calc.quantities.parameters import weights
from calc.sizes import Size, as_int, is_exactly, quotient
from calc.spec import ModelSpec
from calc.spec.run import Phase, Run
from calc.trace.gradients import backward
from calc.trace.op import Cache, Component
from calc.trace.part import Leaf, leaves

WHOLE = "model"
"""The path of everything."""
Amount = tuple[Leaf, str, Size]
"""(where it stands, component, how much)."""


@dataclass(frozen=True, slots=True)
class PartRow:
    """One part, with what stands below it added up by component.

    path: names with dots between, as in the paths of parameters; `layers.{}` is all layers of one kind. depth: 0 for
    the whole model. calls: how often it runs in a forward pass; copies: how many of it stand in memory. active:
    parameters that a token visits. flops: of the phase that was asked for.
    """

    path: str
    depth: int
    calls: Size
    copies: Size
    parameters: Breakdown
    active: Breakdown
    flops: Breakdown

    @property
    def total(self) -> Size:
        return sum(self.parameters.values())

    @property
    def total_active(self) -> Size:
        return sum(self.active.values())

    @property
    def total_flops(self) -> Size:
        return sum(self.flops.values())


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer. stack: `encoder`, `vision`, or nothing for the main one. number: from 0 within it. kind: the path of
    all layers like it. parameters, active, flops: as of a PartRow, of this one; shared parameters count in the first.
    """

    stack: str
    number: int
    kind: str
    parameters: Breakdown
    active: Breakdown
    flops: Breakdown


def under(path: str, part: str) -> bool:
    """Whether an op's path is `part` or stands below it."""
    return part == WHOLE or path == part or path.startswith(f"{part}.")


def paths(spec: ModelSpec) -> list[str]:
    """The paths of all parts, the whole model first, each before what is in it."""
    found = {WHOLE: None}
    for leaf in leaves(weighed(spec)):
        found |= dict.fromkeys(_pieces(leaf.path))
    return list(found)


def part_rows(spec: ModelSpec, query: Run) -> list[PartRow]:
    """Every part with its parameters, and its FLOPs in the query's phase as eager PyTorch runs it.

    Errors: Refused for decode with a model that does not go on token by token, and as for FLOPs in training.
    """
    amounts = {
        "parameters": list(_elements(spec, query)),
        "active": list(_elements(spec, query, active=True)),
        "flops": list(_flops(spec, query)),
    }
    first = {}
    for leaf in leaves(weighed(spec, mtp=query.mtp)):
        for path in (WHOLE, *_pieces(leaf.path)):
            first.setdefault(path, leaf)
    rows = []
    for path, leaf in first.items():
        depth = 0 if path == WHOLE else len(_pieces(path))
        above = leaf.parents[: depth + 1]
        own = {name: _summed(each for each in found if under(each[0].path, path)) for name, found in amounts.items()}
        calls, copies = (_product(getattr(part, name) for part in above) for name in ("calls", "copies"))
        rows.append(PartRow(path=path, depth=depth, calls=calls, copies=copies, **own))
    return rows


def layer_rows(spec: ModelSpec, query: Run) -> list[LayerRow]:
    """Every layer by itself, in order. Errors: as `part_rows`."""
    of_path = {row.path: row for row in part_rows(spec, query)}
    found: list[LayerRow] = []
    seen: set[str | None] = {None}
    for leaf in leaves(weighed(spec, mtp=query.mtp)):
        layer = next((part for part in leaf.parents if part.layer), None)
        if layer is None or leaf.layer is None or leaf.layer in seen:
            continue
        seen.add(leaf.layer)
        row, stack = of_path[leaf.layer], leaf.layer.rpartition("layers.")[0].rstrip(".")
        places = layer.indices or range(layer.calls)
        numbers = places if len(places) == layer.calls else range(places[0], places[0] + layer.calls)
        for i, number in enumerate(numbers):
            held = i < layer.copies
            parameters, active = (_one(terms, layer.copies) if held else {} for terms in (row.parameters, row.active))
            found.append(LayerRow(stack, number, leaf.layer, parameters, active, _one(row.flops, layer.calls)))
    return sorted(found, key=lambda each: (each.stack == "", each.stack, each.number))


def _one(terms: Breakdown, n: Size) -> Breakdown:
    """The share that one of n equal layers has."""
    return {name: quotient(term, n) for name, term in terms.items()}


def of_part(entry: Quantity, part: str) -> Quantity:
    """The same quantity of one part alone. Errors: Refused for one that parts do not have.

    Its `compute` refuses a path that the model does not have, and another convention than torch.
    """
    if part == WHOLE:
        return entry
    if entry.name not in OF_PART:
        raise Refused("QUANTITY", f"for a part one of {', '.join(OF_PART)}", entry.name)
    fold = OF_PART[entry.name]

    def compute(spec: ModelSpec, query: Run) -> Breakdown:
        known = paths(spec)
        if part not in known:
            raise Refused("part", f"a part of {spec.name}{did_you_mean(part, known)}", part[:80] or "''")
        if conventions.find(query.convention).name != "torch":
            raise Refused("convention", "torch, for a part", query.convention)
        return fold(spec, query, part)

    return replace(entry, compute=compute, in_widths=None)


def _pieces(path: str) -> list[str]:
    """The paths of all parts that an op stands in, outermost first, and its own; a number of a copy is no part."""
    pieces = path.split(".")
    ends = [i for i in range(1, len(pieces) + 1) if i == len(pieces) or not pieces[i].startswith("{")]
    return [".".join(pieces[:end]) for end in ends]


def _product(factors: Iterable[Size]) -> Size:
    value: Size = 1
    for factor in factors:
        value = value * factor
    return value


def _summed(amounts: Iterable[Amount]) -> dict[str, Size]:
    """Amounts by component, in the order of `calc.trace.op.Component`; what is 0 is left out."""
    totals: dict[str, Size] = {}
    for _, component, amount in amounts:
        totals[component] = totals.get(component, 0) + amount
    there = {name: totals[name] for name in get_args(Component) if name in totals}
    return {name: total for name, total in there.items() if not is_exactly(total, 0)}


def _elements(spec: ModelSpec, query: Run, *, active: bool = False, trainable: bool = False) -> Iterable[Amount]:
    """Elements of every distinct tensor, where it is met first."""
    for _, weight, leaf in weights(spec, mtp=query.mtp):
        if weight.trainable or not trainable:
            copies = leaf.active if active else leaf.copies
            yield leaf, leaf.component or weight.component, as_int(weight.elements * copies)


def _flops(spec: ModelSpec, query: Run) -> Iterable[Amount]:
    """FLOPs of every op in the query's phase, recomputation apart from the pass that it repeats."""
    conventions.flops(spec, query.changed(convention="torch"))  # refuses what has no such phase
    if query.phase == "decode":
        load = query.load(seq=1, context=query.context, decode=True, absorbed=absorbs(query))
    else:
        load = query.load()
    everything = [leaf for leaf in leaves(build(spec, load)) if leaf.op.kind in ("linear", "attention")]
    for leaf in everything:
        work = of_last(leaf, load) if query.phase == "prefill" else leaf.op.flops
        work = work + (backward(leaf.op) if query.phase == "training" else 0)
        yield leaf, leaf.component or leaf.op.component, work * leaf.calls
    if query.phase == "training":
        for leaf in recomputed(list(leaves(build(spec, load))), query.checkpointing):
            if leaf.op.kind in ("linear", "attention"):
                yield leaf, leaf.component or leaf.op.component, leaf.op.flops * leaf.calls


def _params_of(**which: bool) -> Callable[[ModelSpec, Run, str], Breakdown]:
    def fold(spec: ModelSpec, query: Run, part: str) -> Breakdown:
        return _summed(each for each in _elements(spec, query, **which) if under(each[0].path, part))

    return fold


def _flops_of(phase: Phase) -> Callable[[ModelSpec, Run, str], Breakdown]:
    def fold(spec: ModelSpec, query: Run, part: str) -> Breakdown:
        terms: dict[str, Size] = {"linear": 0, "attention": 0}
        for leaf, _, work in _flops(spec, query.changed(phase=phase)):
            if under(leaf.path, part):
                terms[leaf.op.kind] = terms[leaf.op.kind] + work
        return terms

    return fold


def _cache_of(spec: ModelSpec, query: Run, part: str) -> Breakdown:
    def share(cache: Cache, leaf: Leaf) -> tuple[Cache, Size]:
        return cache, leaf.calls if under(leaf.path, part) else 0

    return cache_terms(spec, query, share)


OF_PART: dict[str, Callable[[ModelSpec, Run, str], Breakdown]] = {
    "params": _params_of(),
    "params.active": _params_of(active=True),
    "params.trainable": _params_of(trainable=True),
    "flops.forward": _flops_of("forward"),
    "flops.prefill": _flops_of("prefill"),
    "flops.training": _flops_of("training"),
    "flops.decode": _flops_of("decode"),
    "kv_cache": _cache_of,
}
"""Quantity -> its terms in one part of a model. The parts of a model sum to the whole."""
