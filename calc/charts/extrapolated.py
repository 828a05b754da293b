"""Which points of a law's lines lie outside of what it was fitted on, and are drawn fainter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc.laws.base import Law


def beyond(law: Law, at: Mapping[str, Any]) -> bool:
    """Whether a point lies outside of what the law was fitted on."""
    known = {name: at[name] for name in ("compute", "params", "tokens") if name in at}
    if law.routed is None and "compute" not in known:
        known["compute"] = 6.0 * known["params"] * known["tokens"]
    return bool(law.outside(**known))


def pieces(law: Law, rows: list[dict[str, float]], name: str) -> list[dict[str, Any]]:
    """Points of lines, each of one `name`, with the number of the piece that lies within what was fitted or beyond."""
    found: list[dict[str, Any]] = []
    for row in rows:
        outside, last = beyond(law, row), found[-1] if found else None
        piece = last["piece"] if last else 0
        if last and (last[name], last["extrapolated"]) != (row[name], outside):
            piece += 1
        found.append({**row, "extrapolated": outside, "piece": piece})
    return found
