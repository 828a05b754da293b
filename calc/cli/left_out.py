"""Laws that have no answer, and why, as the table below those that have."""

from __future__ import annotations

from collections.abc import Iterable

from calc.laws.base import Law
from calc.output.tables import Table, sentences


def left_out(reasons: Iterable[tuple[Law, str]]) -> list[Table]:
    """One row a reason, with the laws that share it; no table where there are none."""
    because: dict[str, list[str]] = {}
    for law, reason in reasons:
        because.setdefault(reason.removesuffix(f", found {law.name}"), []).append(law.name)
    rows = [(", ".join(names), reason) for reason, names in because.items()]
    return [sentences(rows, ("left out", "why"))] if rows else []
