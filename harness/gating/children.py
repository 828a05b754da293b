"""The parent's side of the children that measure: a tree's nursery, and the processes that are forked off there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from calc.errors import Refused, printable

AGENT = Path(__file__).with_name("agent.py")
START, ANSWER = 180.0, 120.0
"""Seconds that importing a tree, and answering one request, may take."""
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""glibc's own variables (mallopt(3)): freed memory is kept, as `harness.measuring.allocator` does in what measures."""


class Failed(Exception):
    """A request that came to nothing. unsupported: the case said that it cannot run here."""

    def __init__(self, why: str, unsupported: bool = False) -> None:
        super().__init__(why)
        self.unsupported = unsupported


class Process:
    """One forked process. Errors of `ask`: Failed, also where the process is gone or does not answer."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._answers = line.makefile("rb")
        line.settimeout(ANSWER)

    def ask(self, do: str, **request: Any) -> Any:
        """The value of the answer."""
        self.send(do, **request)
        return self.receive()

    def send(self, do: str, **request: Any) -> None:
        """Ask without waiting for the answer."""
        with suppress(OSError):
            self._line.sendall(json.dumps({"do": do, **request}).encode() + b"\n")

    def receive(self) -> Any:
        """The value of the answer to what was sent."""
        try:
            text = self._answers.readline()
        except TimeoutError:
            raise Failed(f"no answer within {ANSWER:.0f} s") from None
        except OSError as error:
            raise Failed(str(error)) from None
        if not text:
            raise Failed("the process has died")
        answer = json.loads(text)
        if "value" in answer:
            return answer["value"]
        raise Failed(printable(answer.get("unsupported") or answer["error"]), "unsupported" in answer)

    def close(self) -> None:
        """Let the process end."""
        self._answers.close()
        self._line.close()


class Nursery:
    """A tree whose packages are imported, and from which processes are forked.

    threads: of each process. It is ready once `wait` has returned; leaving it ends all of its processes.
    """

    def __init__(self, tree: Path, threads: int) -> None:
        self.tree = tree
        mine, control = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._line = mine
        with control:
            self._child = subprocess.Popen(
                [sys.executable, "-P", str(AGENT), str(tree), str(threads), str(control.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env=_variables(tree, threads),
                pass_fds=[control.fileno()],
                process_group=0,
            )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._line.close()
        # Forked processes are of its group; those that wait have seen their sockets close, and one that hangs has not.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, 9)
        self._child.wait()
        self._errors.close()

    def wait(self) -> None:
        """Until the tree is imported. Errors: Refused."""
        self._line.settimeout(START)
        try:
            text = self._line.makefile("rb").readline()
        except TimeoutError:
            raise Refused("tree", f"an import within {START:.0f} s", str(self.tree)) from None
        answer = json.loads(text) if text else {"error": self._last_words()}
        if "error" in answer:
            expected = "packages that import here, with harness.cases and reference_models among them"
            raise Refused("tree", expected, printable(answer["error"]))

    def fork(self) -> Process:
        """A new process, which has computed nothing yet."""
        mine, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._line, [b"+"], [theirs.fileno()])
        return Process(mine)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "an exit without a word"


def _variables(tree: Path, threads: int) -> dict[str, str]:
    number = str(threads)
    threads_of = {"OMP_NUM_THREADS": number, "MKL_NUM_THREADS": number}
    return os.environ | KEEP_MEMORY | threads_of | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
