"""Refusing what no module computes, so that a description is never built as something else than it says."""

from __future__ import annotations

from calc.spec import Node


def supported(spec: Node, *fields: str) -> None:
    """Pass where every field of `spec` that is not among `fields` has its default.

    A field that a node gains later is refused by this until its module knows it. Errors: NotImplementedError.
    """
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        if name not in fields and name != "kind" and value != field.get_default(call_default_factory=True):
            raise NotImplementedError(f"{type(spec).__name__}.{name} = {value!r}: no module computes it yet")
