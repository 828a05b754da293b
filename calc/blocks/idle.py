"""What stands beside a model that writes text and does not run as it writes: what speaks, and what sees."""

from __future__ import annotations

from collections.abc import Iterable

from calc.sizes import Size
from calc.trace.trace import Trace


def idle(t: Trace, name: str, named: Iterable[tuple[str, tuple[Size, ...]]], d_model: Size) -> None:
    """The weights alone, by their paths."""
    with t.part(name, of="other", role="idle"):
        weights = tuple(t.weight(path, *shape, of="other") for path, shape in named)
        t.parameters("weights", weights, 0, d_model)
