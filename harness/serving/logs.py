"""Logs of single requests through a real engine: what was sent when, and when its first and last tokens came."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calc.serve.report import Spread, spread_of
from calc.serve.requests import Request
from calc.serve.service import Service
from calc.serve.simulate import Simulated, simulate
from calc.serve.workload import Workload


@dataclass(frozen=True, slots=True)
class Log:
    """Requests as a workload, and what was measured of them; settings: of the engine."""

    workload: Workload
    spreads: dict[str, Spread]
    settings: dict[str, Any]


def read_log(file: Path) -> Log:
    """A log of LLMServingSim's: a line a request, settings in NAME.meta.json beside it. Times are those of the engine:
    from its queue on."""
    with gzip.open(file, "rt") as lines:
        rows = sorted(map(json.loads, lines), key=lambda row: row["queued_ts"])
    start = rows[0]["queued_ts"]
    requests = tuple(
        Request(i, row["queued_ts"] - start, row["input_toks"], row["output_toks"]) for i, row in enumerate(rows)
    )
    spreads = {
        "ttft": spread_of([row["first_token_ts"] - row["queued_ts"] for row in rows]),
        "tpot": spread_of([_each(row) for row in rows if row["output_toks"] > 1]),
        "e2e": spread_of([row["last_token_ts"] - row["queued_ts"] for row in rows]),
    }
    meta = file.with_name(file.name.replace(".jsonl.gz", ".meta.json"))
    return Log(Workload(requests), spreads, json.loads(meta.read_text())["engine_kwargs"])


def _each(row: dict[str, Any]) -> float:
    return (row["last_token_ts"] - row["first_token_ts"]) / (row["output_toks"] - 1)


def replayed(log: Log, service: Service) -> dict[str, Spread]:
    """The same requests through the simulation, from the engine's queue on."""
    tokens = log.workload.mean_input + log.workload.mean_output
    run: Simulated = simulate(log.workload, lambda: service.server(tokens), lambda request: 0.0)
    return {
        "ttft": spread_of([each.ttft for each in run.answered]),
        "tpot": spread_of([each.tpot for each in run.answered if each.output > 1]),
        "e2e": spread_of([each.e2e for each in run.answered]),
    }
