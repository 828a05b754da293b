"""The actor that holds one device: what it is, and one case at a time."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from calc.errors import Refused, printable
from calc.spec.fields import DeviceKind
from calc.workers.identity import code
from harness.cases import make
from harness.measuring.timing import Effort
from harness.record import Environment
from harness.running.observer import Observer
from harness.running.process import Worker
from harness.running.runner import Plan, sweep


class CaseRequest(NamedTuple):
    """One case as it is handed to an actor. profile: what predicted it on the head, and does so again ahead of the
    measurement; None: nothing does. effort: None, what kernels and steps are owed."""

    kind: str
    params: dict[str, Any]
    suite: str
    profile: Any
    timeout: float
    effort: dict[str, float] | None = None


class Bench:
    """Measures in a child process, as `run` does; whatever happens to that is a row."""

    def __init__(self, theirs: str, device: DeviceKind) -> None:
        self._theirs = theirs
        self._device: DeviceKind = device
        self._folder = tempfile.TemporaryDirectory()

    def environment(self) -> Environment | str:
        """What the device is, or why nothing can be measured on it. Errors: Refused for other code than the head's."""
        if self._theirs != code():
            raise Refused("--ray", "nodes with the same version of this package as here", "another version")
        try:
            self._worker = Worker(self._device)
        except (Refused, ImportError) as error:
            return printable(str(error))
        return self._worker.environment

    def measure(self, request: CaseRequest) -> str:
        """A row of results as JSON, predicted before it was measured."""
        effort = None if request.effort is None else Effort(**request.effort)
        plan = Plan(
            [make(request.kind, request.params)],
            request.suite,
            Path(self._folder.name),
            request.profile,
            fresh=True,
            timeout=request.timeout,
            effort=effort,
        )
        (row,) = sweep(plan, self._worker, Observer()).rows
        return row.model_dump_json()
