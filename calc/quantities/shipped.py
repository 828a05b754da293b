"""Bytes of a model's weights as its checkpoint is published: packed matrices, their scales, and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from calc.errors import Refused
from calc.quantities.module_names import compiled, found, names_of
from calc.quantities.parameters import weights
from calc.spec import ModelSpec
from calc.spec.shipped import Packed, Shipped
from calc.trace.op import Component, Weight
from calc.trace.part import Leaf

FORMS = {16: "16 bits", 32: "fp32"}


def shipped_bytes(spec: ModelSpec) -> dict[str, int]:
    """Bytes of all parameters by component, tied weights once, as `spec.shipped` has them.

    Errors: Refused for a model whose config says nothing of it.
    """
    totals: dict[str, int] = {}
    for component, _, size in _sizes(spec):
        totals[component] = totals.get(component, 0) + size
    return {name: totals[name] for name in get_args(Component) if name in totals}


def shipped_formats(spec: ModelSpec) -> dict[str, int]:
    """As `shipped_bytes`, by the name of the format."""
    totals: dict[str, int] = {}
    for _, form, size in _sizes(spec):
        totals[form] = totals.get(form, 0) + size
    return totals


def _sizes(spec: ModelSpec) -> Iterator[tuple[str, str, int]]:
    """(component, name of the format, bytes) of every tensor and its copies."""
    how = spec.shipped
    if how is None:
        raise Refused("quantization_config", "one, which says how the checkpoint is packed", "nothing")
    skips, rules = compiled(how.skips), [(compiled(rule.names), rule.packed) for rule in how.rules]
    for path, weight, leaf in weights(spec):
        component = leaf.component or weight.component
        plain = weight.elements * how.rest // 8
        if not _matrix(how, weight, leaf):
            yield component, FORMS[how.rest], plain * leaf.copies
            continue
        for number, copies in _layers(leaf):
            packed = _format(path, number, skips, rules)
            size = plain if packed is None else packed_bytes(packed, *weight.shape)
            yield component, FORMS[how.rest] if packed is None else packed.name, size * copies


def _format(
    path: str, number: int | None, skips: re.Pattern[str] | None, rules: list[tuple[re.Pattern[str] | None, Packed]]
) -> Packed | None:
    """The format of one layer's matrix; None where it is left as it is."""
    names = list(names_of(path, number))
    if found(skips, names):
        return None
    return next((packed for which, packed in rules if which is None or found(which, names)), None)


def _layers(leaf: Leaf) -> Iterator[tuple[int | None, int]]:
    """(number of a layer, copies in it) of a weight that several layers have; (None, copies) of one outside."""
    group = next((part for part in leaf.parents if part.layer), None)
    if group is None:
        yield None, leaf.copies
        return
    for number in group.indices or range(group.copies):
        yield number, leaf.copies // group.copies


def _matrix(how: Shipped, weight: Weight, leaf: Leaf) -> bool:
    """Whether a weight is among those that the method packs where nothing leaves it out: a matrix of a dense layer.

    Tables, routers, norms and convolutions are left as they are in all methods.
    """
    if len(weight.shape) != 2 or weight.component in ("router", "adapter", "embedding", "positional"):
        return False
    if weight.component == "lm_head":
        return how.reach == "head"
    if leaf.op.rows is None:
        return False
    return how.reach != "experts" or weight.component == "routed_expert"


def packed_bytes(form: Packed, rows: int, columns: int) -> int:
    """Bytes of a matrix [rows, columns] with all that stands beside it."""
    if form.flat is not None:
        groups = _up(rows * columns, form.flat)
    else:
        groups = _up(rows, form.block_rows or rows) * _up(columns, form.block_columns or columns)
    total = _elements(form, rows, columns) + _up(groups * form.scale_bits, 8)
    if form.zeros == "plain":
        total += _up(groups * form.scale_bits, 8)
    elif form.zeros == "packed":
        total += groups // rows * _words(form, rows) if form.flat is None else _up(groups * form.bits, 8)
    if form.nested is not None:
        total += 4 * _up(groups, form.nested)
    return total + columns * form.column_bits // 8 + form.fixed


def _elements(form: Packed, rows: int, columns: int) -> int:
    match form.along:
        case "columns":
            return rows * _words(form, columns)
        case "rows":
            return columns * _words(form, rows)
    return _words(form, rows * columns)


def _words(form: Packed, n: int) -> int:
    """Bytes of n elements one behind the other."""
    if form.crossing:
        return _up(n * form.bits, form.word) * form.word // 8
    return _up(n, form.word // form.bits) * form.word // 8


def _up(n: int, by: int) -> int:
    return -(-n // by)
