"""Rows of results as tests need them."""

from __future__ import annotations

from typing import Any

from harness.record import Environment, Forecast, Measurement, Run

CPU = Environment(
    slug="cpu-of-a-test",
    device="cpu",
    name="a CPU",
    cores=2,
    threads=2,
    memory=2**34,
    cpu="a CPU",
    os="an OS",
    python="3.11",
    torch="2.6",
    commit="abc",
)
H100 = CPU.model_copy(update={"slug": "nvidia-h100-80gb-hbm3", "device": "cuda", "name": "NVIDIA H100 80GB HBM3"})
FORECAST = Forecast(seconds=1.0, low=0.9, high=1.1, level=0.9, source="a profile", bound="compute")


def measurement(seconds: float = 1.0, **changes: Any) -> Measurement:
    """A measurement of that many seconds, one sample."""
    told = {"low": seconds, "high": seconds, "samples": (seconds,), "clock": "host", "cache": "hot"}
    return Measurement(**{"seconds": seconds, "converged": True, "warmup": 3} | told | changes)


def row(**changes: Any) -> Run:
    """A row that is `ok`, but for the changes."""
    told = {"run": "r1", "case": "matmul/m=1", "kind": "matmul", "params": {"m": 1}, "suite": "quick"}
    told |= {"started": "2026-01-02T03:04:05.678+00:00", "wall": 2.0, "status": "ok"}
    return Run(**told | {"environment": CPU, "measurement": measurement()} | changes)
