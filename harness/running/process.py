"""The parent's side of a worker: a child process that holds torch, and whatever happens to it costs one case."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from calc.errors import Refused, printable
from calc.spec.fields import DeviceKind
from harness.cases.case import Case
from harness.environment import INSTALL, PYTHON, child_variables
from harness.measuring.timing import Effort
from harness.record import Environment, Measurement, Status

START = 180.0
"""Seconds that a worker may take to import torch and to find its device."""
PERIOD = 0.2
"""Seconds between two looks at whether somebody wants to stop."""
_PR_SET_PDEATHSIG = 1
"""linux/prctl.h."""


class Outcome(NamedTuple):
    """How a case ended in the worker; a measurement where it was measured. sound: the worker may take another."""

    status: Status
    reason: str = ""
    measurement: Measurement | None = None
    sound: bool = False


class _Silence(Exception):
    """Nothing came in time."""


class _Gone(Exception):
    """The worker has ended."""


class Worker:
    """One child process in a process group of its own, kept warm from case to case and replaced after any fault.

    tick: called a few times a second while it is waited for; what it raises ends the worker and goes through.
    Errors: Refused where it cannot be started, ImportError where torch is missing.
    """

    def __init__(self, device: DeviceKind | None = None, tick: Callable[[], None] = lambda: None) -> None:
        self._device = device
        self._tick = tick
        self._child: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._stage = ""
        self._so_far: Measurement | None = None
        self.environment = self._start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(self, case: Case, effort: Effort, timeout: float, on_stage: Callable[[str], None]) -> Outcome:
        """Have `case` measured; whatever happens to the child is an `Outcome`."""
        if self._child is not None and self._child.poll() is not None:
            # It ended between two cases, which is not this one's fault.
            self.close()
        if self._child is None:
            self.environment = self._start()
        kills = oom_kills()
        request = {"case": base64.b64encode(pickle.dumps(case)).decode(), "effort": asdict(effort)}
        try:
            outcome = self._talk(request, time.monotonic() + timeout, on_stage)
        except _Silence:
            outcome = Outcome("timeout", f"no result after {timeout:.0f} s, while {self._stage}")
        except _Gone:
            outcome = self._post_mortem(kills)
        except BaseException:
            self.close()
            raise
        if not outcome.sound:
            self.close()
        if outcome.measurement is None and self._so_far is not None:
            return Outcome("ok", f"measured, then {outcome.status}: {outcome.reason}", self._so_far)
        return outcome

    def close(self) -> None:
        """End the child and everything that it started."""
        child, self._child = self._child, None
        if child is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):
                pipe.close()  # pyright: ignore[reportOptionalMemberAccess]
        self._errors.close()

    def _start(self) -> Environment:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._pending, self._stage = b"", "starting"
        self._child = subprocess.Popen(
            [*PYTHON, "-m", "harness.running.worker", str(os.getpid()), self._device or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=child_variables(),
            process_group=0,
        )
        try:
            message = self._receive(time.monotonic() + START)
        except _Silence:
            self.close()
            raise Refused("worker", f"a start within {START:.0f} s", "none") from None
        except _Gone:
            why = self._last_words()
            self.close()
            raise (
                ImportError(INSTALL) if INSTALL in why else Refused("worker", "a child process that imports torch", why)
            ) from None
        except BaseException:
            self.close()
            raise
        if "refused" in message:
            self.close()
            raise Refused(*message["refused"])
        return Environment.model_validate_json(json.dumps(message["environment"]))

    def _talk(self, request: dict[str, Any], deadline: float, on_stage: Callable[[str], None]) -> Outcome:
        assert self._child is not None
        requests = self._child.stdin
        assert requests is not None
        self._so_far, self._stage = None, "taking the case"
        try:
            requests.write(json.dumps(request).encode() + b"\n")
            requests.flush()
        except BrokenPipeError:
            raise _Gone from None
        while True:
            message = self._receive(deadline)
            if "stage" in message:
                self._stage = message["stage"]
                on_stage(self._stage)
            elif "so_far" in message:
                self._so_far = _measurement(message["so_far"])
            elif "measurement" in message:
                return Outcome("ok", "", _measurement(message["measurement"]), sound=True)
            else:
                return Outcome(message["status"], printable(message["reason"])[:1000], sound=message["sound"])

    def _receive(self, deadline: float) -> dict[str, Any]:
        """The next message. Errors: _Silence at the deadline, _Gone where there will be none."""
        assert self._child is not None
        answers = self._child.stdout
        assert answers is not None
        pipe = answers.fileno()
        while b"\n" not in self._pending:
            self._tick()
            left = deadline - time.monotonic()
            if left <= 0:
                raise _Silence
            if select.select([pipe], [], [], min(PERIOD, left))[0]:
                data = os.read(pipe, 2**16)
                if not data:
                    raise _Gone
                self._pending += data
            elif self._child.poll() is not None:
                # It has ended, and a child of its own holds the pipe open.
                raise _Gone
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)

    def _post_mortem(self, kills_before: int | None) -> Outcome:
        """Why a worker that was not told to has ended."""
        assert self._child is not None
        code = self._child.wait()
        if code >= 0:
            return Outcome("crashed", f"exit status {code} while {self._stage}: {self._last_words()}"[:1000])
        name = signal.Signals(-code).name
        kills = oom_kills()
        if -code == signal.SIGKILL and (kills is None or kills_before is None or kills > kills_before):
            return Outcome("oom", f"killed while {self._stage}, as the kernel does where memory runs out")
        return Outcome("crashed", f"{name} while {self._stage}")

    def _last_words(self) -> str:
        """The last line of what the child wrote to stderr."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4096))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return printable(lines[-1]) if lines else "nothing on stderr"


def _measurement(document: dict[str, Any]) -> Measurement:
    """From JSON, where tuples are lists."""
    return Measurement.model_validate_json(json.dumps(document))


def oom_kills() -> int | None:
    """How many processes the kernel has killed for want of memory so far, None where it does not tell."""
    with suppress(OSError):
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.M)
        return int(found[1]) if found else None
    return None


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends (Linux; elsewhere nothing happens).

    parent: the process id of the parent; if it is gone already, this process ends at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
