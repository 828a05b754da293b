"""Every request of the best plan, simulated one by one: a part of the page Serve."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

import streamlit as st

from calc.charts import serving as charts
from calc.serve.layout import Layout
from calc.serve.service import service_of
from calc.serve.simulate import simulate
from calc.serve.workload import closed_loop
from calc.spec import ModelSpec
from calc.units import duration
from dashboard import frame, layout, picker, saved
from dashboard.cache import cached
from dashboard.serving import Wanted

MOST = 1000
"""Requests of a simulation here, which other visitors wait for too."""
PARTS = (0.5, 0.9, 0.99)


class Simulation(NamedTuple):
    """What is simulated: a server, and clients each of whom sends the next request once the last is answered."""

    device: str
    dtype: str
    tp: int
    input: int
    output: int
    concurrency: int

    @property
    def requests(self) -> int:
        """As many as the command line takes, within bounds."""
        return min(10 * self.concurrency, MOST)

    def command(self, reference: str) -> str:
        """The same on the command line."""
        words = ["serve", reference, "--gpu", self.device, "--dtype", self.dtype, "--tp", str(self.tp)]
        words += ["--input", str(self.input), "--output", str(self.output), "--concurrency", str(self.concurrency)]
        return f"python -m calc {shlex.join([*words, '--requests', str(self.requests)])}"


def draw(picked: picker.Picked, best: dict[str, Any], wanted: Wanted) -> None:
    """Draw it, once it is asked for."""
    if best["layout"] != f"tp{best['gpus']}":
        return  # attention or experts spread otherwise: the command line simulates those
    with layout.fold("Every request of this plan", "requests"):
        wanted_too = st.toggle("Simulate them one by one", key="requests", bind="query-params")
    if not wanted_too:
        return
    load = max(round(best["concurrency"]), 1)
    simulation = Simulation(best["device"], best["dtype"], best["gpus"], wanted.input, wanted.output, load)
    with st.spinner("Simulating"):
        spreads = _simulated(picked.spec, simulation)
    command = simulation.command(picked.reference)
    saved.about(f"{simulation.tp} × {simulation.device}", command)
    frame.chart(
        charts.latencies(spreads),
        "requests",
        alt="How many of 100 requests had their first token, a token and their answer within so many seconds",
    )
    rows = [
        {"seconds of": name, **{f"{part:.0%} within": _part(own, part) for part in PARTS}}
        for name, own in spreads.items()
    ]
    frame.table(rows, "latencies", shown={f"{part:.0%} within": duration for part in PARTS})
    frame.command(command, part="requests")


def _part(seconds: list[float], part: float) -> float:
    from calc.serve.report import spread_of

    found = spread_of(seconds)
    return {0.5: found.p50, 0.9: found.p90, 0.99: found.p99}[part]


@cached
def _simulated(spec: ModelSpec, simulation: Simulation) -> dict[str, list[float]]:
    """What is waited for -> seconds of each request."""
    service = service_of(spec, simulation.device, Layout(tp=simulation.tp), dtype=simulation.dtype)
    scatter = service.engine.scatter
    workload = closed_loop(simulation.concurrency, simulation.input, simulation.output, simulation.requests, scatter)
    tokens = workload.mean_input + workload.mean_output
    found = simulate(workload, lambda: service.server(tokens), lambda each: service.request_seconds(each.input))
    done = found.answered
    return {
        "first token": [each.ttft for each in done],
        "each further token": [each.tpot for each in done if each.output > 1],
        "whole answer": [each.e2e for each in done],
    }
