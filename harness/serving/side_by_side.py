"""vLLM on H100 as one project measured it beside six simulators: the same requests a second, predicted."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calc.serve.answer import answer
from calc.serve.layout import layout_of
from calc.serve.report import Report
from calc.serve.service import Service, service_of
from calc.serve.workload import open_loop
from calc.spec import ModelSpec
from harness.serving.rows import number

WORKLOADS = Path(__file__).with_name("side_by_side.toml")
SIMULATORS = (
    "blis-roofline",
    "blis-evolved",
    "llm-optimizer-estimate",
    "aiconfigurator-estimate",
    "vidur",
    "llmservingsim",
)
METRICS = ("e2e", "ttft", "itl")
SEQUENCES = 128
REQUESTS = 600
"""Of a simulated stage."""
SPREAD = 0.2
"""Of lengths about their mean, which the makers call about so long."""


@dataclass(frozen=True, slots=True)
class MeasuredServer:
    """One experiment, or a stage of one. measured: seconds in the mean; theirs: predicted by each simulator that runs
    it. rates: requests a second of the stages that it is the mean of."""

    name: str
    model: str
    tp: int
    budget: int
    input: int
    output: int
    rates: tuple[float, ...]
    measured: dict[str, float]
    theirs: dict[str, dict[str, float]]


def measured_servers(file: Path) -> Iterator[MeasuredServer]:
    """The experiments in 16 bits whose lengths and rates are printed; stages by themselves where rows tell them."""
    known = tomllib.loads(WORKLOADS.read_text())["workloads"]
    with file.open(newline="", encoding="utf-8-sig") as lines:
        rows = list(csv.DictReader(lines))
    staged = {row["experiment"] for row in rows if int(row["stage_index"]) >= 0}
    for row in rows:
        stage = int(row["stage_index"])
        own = known.get(row["workload"])
        lite = "-lite" in row["experiment"] or row["precision"] != "FP16"
        if own is None or lite or (stage < 0 and row["experiment"] in staged):
            continue
        theirs = {name: _metrics(row, name) for name in SIMULATORS}
        yield MeasuredServer(
            name=row["experiment"],
            model=row["model"],
            tp=int(float(row["tp"])),
            budget=int(float(row["max_num_batched_tokens"])),
            input=own["input"],
            output=own["output"],
            rates=tuple(own["rates"]) if stage < 0 else (own["rates"][stage],),
            measured=_metrics(row, "actual"),
            theirs={name: found for name, found in theirs.items() if found},
        )


def _metrics(row: dict[str, str], who: str) -> dict[str, float]:
    found = {name: number(row.get(f"{who}_{name}_mean_ms") or "") for name in METRICS}
    return {name: value / 1e3 for name, value in found.items() if value is not None}


def simulated_server(row: MeasuredServer, spec: ModelSpec) -> dict[str, float]:
    """What we predict of it in seconds: means of its stages, each counted by its requests.

    Errors: Refused for a layout that the model cannot have.
    """
    service = service_of(spec, "h100-sxm", layout_of(spec, tp=row.tp), "vllm", "bf16", None, row.budget, SEQUENCES)
    stages = [(rate, _stage(service, row, rate)) for rate in row.rates]
    total = sum(rate for rate, _ in stages)
    return {name: sum(rate * _mean(report, name) for rate, report in stages) / total for name in METRICS}


def _stage(service: Service, row: MeasuredServer, rate: float) -> Report:
    report = answer(service, open_loop(rate, row.input, row.output, REQUESTS, SPREAD)).report
    assert report is not None
    return report


def _mean(report: Report, name: str) -> float:
    return {"e2e": report.e2e.mean, "ttft": report.ttft.mean, "itl": report.itl.mean}[name]
