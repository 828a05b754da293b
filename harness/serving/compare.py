"""Measured beside predicted: distributions of a server's latencies, and the line of results that keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from calc.serve.answer import Answer
from calc.serve.report import Spread, spread_of
from harness.serving.client import Measured
from harness.store import append_lines, with_check


def measured_spreads(found: Measured) -> dict[str, Spread]:
    """ttft, tpot and e2e of what was finished, in seconds."""
    return {
        "ttft": spread_of([each.ttft for each in found.answered]),
        "tpot": spread_of([each.tpot for each in found.answered if each.tpot is not None]),
        "e2e": spread_of([each.ended - each.started for each in found.answered]),
    }


def throughput(found: Measured) -> float:
    """Tokens of answers a second, from the first sending to the last answer."""
    if not found.answered:
        return 0.0
    first = min(each.started for each in found.answered)
    return sum(each.output for each in found.answered) / (max(each.ended for each in found.answered) - first)


def comparison(found: Measured, forecast: Answer) -> dict[str, Any]:
    """Both, distribution by distribution; ratio: measured over predicted means."""
    report, spreads = forecast.report, measured_spreads(found)
    rows: dict[str, Any] = {}
    for name, spread in spreads.items():
        predicted = None if report is None else getattr(report, name)
        rows[name] = {
            "measured": spread._asdict(),
            "predicted": None if predicted is None else predicted._asdict(),
            "ratio": spread.mean / predicted.mean if predicted and predicted.mean else None,
            "inside": _inside(name, spread.mean, forecast.interval),
        }
    rows["throughput"] = {
        "measured": throughput(found),
        "predicted": None if report is None else report.output,
        "inside": _inside("throughput", throughput(found), forecast.interval),
    }
    return rows


def _inside(name: str, value: float, interval: Mapping[str, tuple[float, float, float]]) -> bool | None:
    if name not in interval:
        return None
    _, low, high = interval[name]
    return low <= value <= high


def keep(results: Path, slug: str, run: Mapping[str, Any], found: Measured, rows: Mapping[str, Any]) -> Path:
    """Append the comparison, with every finished request, to results/serving/DEVICE/DAY.jsonl."""
    now = datetime.now(UTC)
    record = {
        "schema_version": 1,
        "started": now.isoformat(timespec="seconds"),
        "run": dict(run),
        "compared": dict(rows),
        "failed": found.failed,
        "requests": [asdict(each) for each in found.answered],
    }
    path = results / "serving" / slug / f"{now:%Y-%m-%d}.jsonl"
    append_lines(path, with_check(json.dumps(record).encode()) + b"\n")
    return path


def lines(rows: Mapping[str, Any]) -> Sequence[tuple[str, ...]]:
    """Rows of a table for people."""
    found = []
    for name in ("ttft", "tpot", "e2e"):
        for part in ("mean", "p50", "p90", "p99"):
            predicted = rows[name]["predicted"]
            cells = [rows[name]["measured"][part], None if predicted is None else predicted[part]]
            found.append((f"{name} {part}", *(_shown(cell) for cell in cells)))
    found.append(("tokens/s", *(_number(rows["throughput"][which]) for which in ("measured", "predicted"))))
    return found


def _shown(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:,.1f} ms"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
