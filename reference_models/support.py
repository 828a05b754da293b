"""The module that twins a node, and refusing what none computes, so that a description is never built as another."""

from __future__ import annotations

from typing import Any

from calc.spec import Node


def supported(spec: Node, *fields: str) -> None:
    """Pass where every field of `spec` that is not among `fields` has its default.

    A field that a node gains later is refused by this until its module knows it. Errors: NotImplementedError.
    """
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        if name not in fields and name != "kind" and value != field.get_default(call_default_factory=True):
            raise NotImplementedError(f"{type(spec).__name__}.{name} = {value!r}: no module computes it yet")


def module_of(table: dict[type[Node], Any], node: Node) -> Any:
    """The module that a table says twins `node`. Errors: NotImplementedError where it says none."""
    if type(node) not in table:
        name = type(node).__name__
        raise NotImplementedError(f"{name}: no module yet; reference_models/README.md says how to add one")
    return table[type(node)]
