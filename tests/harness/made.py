"""Runs made up for tests of what reads results."""

from __future__ import annotations

from itertools import count
from typing import Any

from harness.record import Environment, Forecast, Measurement, Run

_NUMBERS = count()


def environment(slug: str = "cpu-one", **more: Any) -> Environment:
    """A machine."""
    given: dict[str, Any] = {"device": "cpu", "name": "One", "cores": 2, "threads": 2, "memory": 2**30, "cpu": "One"}
    given |= {"os": "Linux", "python": "3.11", "torch": "2.13.0", "commit": "abc123def456"}
    return Environment(slug=slug, **(given | more))


def forecast(seconds: float = 1.0, **more: Any) -> Forecast:
    """From 0.9 to 1.1 of `seconds`."""
    given: dict[str, Any] = {"low": 0.9 * seconds, "high": 1.1 * seconds, "level": 0.9, "source": "a profile"}
    return Forecast(seconds=seconds, **(given | {"bound": "compute"} | more))


def measurement(seconds: float = 1.0, width: float = 0.01, **more: Any) -> Measurement:
    """A median with an interval of `width` on either side."""
    given: dict[str, Any] = {"low": seconds * (1 - width), "high": seconds * (1 + width), "samples": (seconds,)}
    given |= {"clock": "host", "cache": "hot", "converged": True, "warmup": 1}
    return Measurement(seconds=seconds, **(given | more))


def run(case: str = "matmul/m=1", predicted: float | None = None, measured: float | None = None, **more: Any) -> Run:
    """A run of `kind/…`; with more: fields of Run."""
    given: dict[str, Any] = {
        "run": f"run-{next(_NUMBERS)}",
        "kind": case.partition("/")[0],
        "params": {},
        "suite": "quick",
    }
    given |= {"started": "2026-11-21T17:00:00Z", "wall": 1.0, "status": "ok", "environment": environment()}
    given["forecast"] = None if predicted is None else forecast(predicted)
    given["measurement"] = None if measured is None else measurement(measured)
    return Run(case=case, **(given | more))


def row(**changes: Any) -> Run:
    """A measured run of one product, but for the changes."""
    given: dict[str, Any] = {"run": "r1", "params": {"m": 1}, "started": "2026-01-02T03:04:05.678+00:00"}
    return run(measured=1.0, **(given | {"environment": CPU} | changes))


CPU = environment("cpu-of-a-test", memory=2**34)
H100 = CPU.model_copy(update={"slug": "nvidia-h100-80gb-hbm3", "device": "cuda", "name": "NVIDIA H100 80GB HBM3"})
