"""The child process that measures: reads cases on stdin, one a line, and answers on what was its stdout.

`python -m harness.running.worker PARENT DEVICE`. The protocol is JSON lines: first {"environment": …}, then for each
request {"case": pickled, "effort": …} any number of {"stage": …}, {"so_far": …} once it is timed, and one
{"measurement": …} or {"status": …, "reason": …, "sound": …}.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import math
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from calc.errors import Refused
from calc.spec.fields import DeviceKind
from harness.cases.case import Case, Ready
from harness.environment import here
from harness.measuring.allocator import keep_freed_memory
from harness.measuring.inspection import inspect
from harness.measuring.timing import Effort, Timing, measure
from harness.record import Measurement, Status
from harness.running.process import die_with_parent

Report = Callable[[dict[str, Any]], None]
NO_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "cannot allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""What errors say that are about memory and do not have a class of their own."""


class WrongResult(Exception):
    """A case computes something else than what it is checked against."""


def main() -> None:
    """Serve requests until stdin ends."""
    die_with_parent(int(sys.argv[1]))
    faulthandler.enable()
    # Whatever libraries print must not get between the messages.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    # If the host runs out of memory, it should be this process that goes, and not the one that keeps the results.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")

    def report(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")

    try:
        environment = here(sys.argv[2] or None)  # pyright: ignore[reportArgumentType]
    except Refused as refusal:
        report({"refused": [refusal.field, refusal.expected, refusal.found]})
        return
    if environment.device == "cpu":
        keep_freed_memory()
    report({"environment": environment.model_dump(mode="json")})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        serve(request, environment.device, report)


def serve(request: dict[str, Any], device: DeviceKind, report: Report) -> None:
    """Measure one case, and report what came of it."""
    try:
        case: Case = pickle.loads(base64.b64decode(request["case"]))
        found = execute(case, device, Effort(**request["effort"]), report)
    except BaseException as error:
        status, reason = classify(error)
        # A result that is wrong, or a case that says no, leaves the process as good as it was.
        report({"status": status, "reason": reason, "sound": isinstance(error, WrongResult | NotImplementedError)})
    else:
        report({"measurement": found.model_dump(mode="json")})


def execute(case: Case, device: DeviceKind, effort: Effort, report: Report) -> Measurement:
    """Make a case ready, check it, measure it, and look at what ran."""
    report({"stage": "preparing"})
    ready = case.ready(device)
    try:
        report({"stage": "checking"})
        error = checked(ready)
        report({"stage": "measuring"})
        timing = measure(ready, device, effort, case.clock, case.cache, step=case.step)
        found = as_measurement(timing, error)
        # What has been measured counts, even if looking closer ends the process.
        report({"so_far": found.model_dump(mode="json")})
        report({"stage": "inspecting"})
        seen = inspect(ready, device)
        parts = (ready.components() or {}) if ready.components is not None else {}
    finally:
        if ready.close is not None:
            ready.close()
    by_component = {name: _short(seconds) for name, seconds in parts.items()}
    return found.model_copy(update={**seen._asdict(), "by_component": by_component})


def checked(ready: Ready) -> float | None:
    """The error against the check, None where there is none. Errors: WrongResult above the tolerance."""
    if ready.check is None:
        return None
    error = float(ready.check())
    if not math.isfinite(error) or error > ready.tolerance:
        raise WrongResult(f"wrong result: relative error {error:.3g}, where at most {ready.tolerance:.3g} is right")
    return error


def as_measurement(timing: Timing, error: float | None) -> Measurement:
    """The record of it; times with six digits, which is more than any clock gives."""
    return Measurement(
        seconds=_short(timing.seconds),
        low=_short(timing.low),
        high=_short(timing.high),
        samples=tuple(map(_short, timing.samples)),
        clock=timing.clock,
        cache=timing.cache,
        converged=timing.converged,
        warmup=timing.warmup,
        error=error,
        waiting=timing.waiting,
        sample=timing.sample,
    )


def _short(seconds: float) -> float:
    return float(f"{seconds:.6g}")


def classify(error: BaseException) -> tuple[Status, str]:
    """The status that an exception stands for, and one line about it."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else "no message"
    if isinstance(error, WrongResult):
        return "crashed", first
    if isinstance(error, NotImplementedError):
        return "unsupported", first
    named = f"{type(error).__name__}: {first}"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "oom", named
    if isinstance(error, RuntimeError) and any(words.lower() in text.lower() for words in NO_MEMORY):
        return "oom", named
    return "crashed", named


if __name__ == "__main__":
    main()
