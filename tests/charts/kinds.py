"""One chart of each kind, of few rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import calc
from calc.ask.anatomy import anatomy
from calc.attention import AttentionShape
from calc.attention.tiles import Blocks
from calc.charts import (
    attention,
    axes,
    bars,
    commits,
    fits,
    losses,
    measured,
    memory,
    optima,
    plans,
    roofline,
    sensitivity,
    serving,
)
from calc.charts.architecture import diagram
from calc.charts.vega import Chart
from calc.spec.run import Run as Asked
from calc.time import Prediction, Roof, predict, speed_of, waterfall
from calc.time import roof as roof_of
from calc.time import roofline as points_of
from calc.time.attention_calls.attention_sweep import decoding, sweep
from harness.compare import compare
from harness.diff import Change
from harness.history import levels
from tests.fitting.test_frontier import curves, isoflop_runs
from tests.harness.made import forecast, measurement, run

ROWS = [{"a": "x", "b": "mlp", "n": 2.0, "shown": "2"}, {"a": "y", "b": "attention", "n": 3.0, "shown": "3"}]
PARTS = ("attention", "mlp")
TERMS, GPUS = {"weights": 2**30, "optimizer": 2**31}, {"l4": 2**34, "h200": 2**37}
RUNS = [
    run("matmul/a", 1.0, 1.25),
    run(
        "forward/b",
        forecast=forecast(3.0, by_component={"mlp": 2.0, "attention": 1.0}),
        measurement=measurement(2.0, by_component={"mlp": 1.5, "attention": 0.5}),
    ),
]
CACHES = [{"model": "m", "context": 2**n, "bytes": 2.0 ** (20 + n), "cache": "1"} for n in range(7, 12)]
PLANS = [{"plan": f"dp{n}", "reserved": n * 2**32, "seconds": 4.0 / n, "front": n < 3} for n in (3, 2, 1)]
EVENTS = [{"stage": "stage 0", "kind": "forward", "micro": "0", "start": 0.0, "end": 1.5}]
SERVED = [{"device": "l4", "per_user": 10.0 * n, "per_gpu": 100.0 / n, "plan": "one"} for n in (1, 2)]


@cache
def step() -> Prediction:
    return predict(calc.load_model("gpt2"), speed_of("h100-sxm"), phase="forward", seq=128)


def limits() -> Roof:
    return roof_of(speed_of("h100-sxm"), step().kernels)


def over_length() -> Chart:
    shape = AttentionShape(heads=8, seq=512, d_head=64, causal=True)
    return attention.over_length(sweep(shape, Blocks(64, 64), (256, 512), "h100-sxm"), "seconds", 512, 256)


def fitted() -> Chart:
    return fits.fit_chart(calc.fit(isoflop_runs(), "chinchilla", refits=0))


KINDS: dict[str, Callable[[], Chart]] = {
    "stacked": lambda: bars.stacked(ROWS, "a", "b", "n", axes.numbers("n"), PARTS),
    "columns": lambda: bars.columns(ROWS, "a", "b", "n", axes.numbers("n"), PARTS, 5.0),
    "memory against GPUs": lambda: memory.memory_against_gpus(TERMS, TERMS, 3 * 2**30, GPUS),
    "moments": lambda: memory.timeline({"forward": TERMS, "loss": TERMS}, 2**34),
    "caches": lambda: memory.caches(CACHES),
    "architecture": lambda: diagram(anatomy(calc.load_model("mixtral-8x7b"), Asked(phase="forward", seq=128))),
    "attention": over_length,
    "grouping": lambda: attention.groups(
        decoding(AttentionShape(heads=32, d_head=128, keys=1024), "h100-sxm"), "traffic", axes.numbers("B")
    ),
    "roofline": lambda: roofline.computing(points_of(step()), limits()),
    "bandwidth": lambda: roofline.moving([each for each in points_of(step()) if not each.flops], limits()),
    "shares": lambda: roofline.shares(step()),
    "measured": lambda: measured.ratios(compare(RUNS).pairs),
    "errors": lambda: measured.errors(compare(RUNS).pairs, by_kind=False),
    "changes": lambda: commits.changes([Change("matmul/a", "matmul", 1.0, 1.2, 1.1, 1.3, "SLOWER")]),
    "components": lambda: measured.components(compare(RUNS).parts),
    "commits": lambda: commits.levels(levels(RUNS)),
    "sensitivity": lambda: sensitivity.changes([{"symbol": "n", "meaning": "", "now": "1", "change": 0.1}], "FLOP"),
    "plans": lambda: plans.front(PLANS, PLANS[0], 2**34),
    "fall": lambda: plans.waterfall_chart(waterfall(step(), speed_of("h100-sxm"))),
    "stages": lambda: plans.stages(EVENTS, 2.0, ["stage 0"]),
    "serving": lambda: serving.front(SERVED, 50, SERVED[:1], SERVED[1:]),
    "latencies": lambda: serving.latencies({"first token": [0.1, 0.2, 0.4]}),
    "server": lambda: serving.measured_over_predicted(
        [{"figure": "ttft", "ratio": 1.2, "predicted": "1 s", "measured": "1.2 s"}]
    ),
    "fit": fitted,
    "isoFLOP of runs": lambda: fits.frontier_chart(calc.fit_isoflop(isoflop_runs(), refits=0)),
    "envelope": lambda: fits.frontier_chart(calc.fit_envelope(curves(np.geomspace(1e8, 1e10, 21)), refits=0)),
    "isoFLOP": lambda: optima.isoflop_chart(compute=1e22),
    "frontier": lambda: optima.isoflop_chart("hoffmann-2", compute=1e22),
    "loss": lambda: losses.loss_chart(params=1e9, tokens=1e11),
    "plane": lambda: losses.plane_chart("besiroglu", 1e9, 1e11),
}
"""What it shows -> the chart."""
