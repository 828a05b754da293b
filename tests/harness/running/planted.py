"""Cases that go wrong in every way, and the command line with a suite of them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from calc.spec.fields import DeviceKind
from harness.cases.case import Case, Counts, Ready
from harness.record import Forecast


@dataclass(frozen=True)
class Planted(Case):
    """A sum of `size` numbers, which behaves as `does` says once it is to be made ready; `where` files are left."""

    kind: ClassVar[str] = "planted"
    does: Literal["work", "segfault", "hang", "oom", "kill", "raise", "wrong", "unsupported", "breed", "exit", "late"]
    size: int = 1000
    where: str | None = None

    def counts(self) -> Counts:
        return {"flops": float(self.size), "bytes": 4.0 * self.size}

    def memory(self) -> float:
        return 4.0 * self.size

    def forecast(self, profile: object) -> Forecast | None:
        return Forecast(seconds=1e-5, low=1e-6, high=1e-4, level=0.9, source="a guess", bound="memory")

    def ready(self, device: DeviceKind) -> Ready:
        import torch

        if self.does != "work":
            fault(self.does, Path(self.where) if self.where else None)
        numbers = torch.rand(self.size)
        wrong = float("nan") if self.does == "wrong" else 0.0
        parts = (lambda: ctypes.string_at(0)) if self.does == "late" else None
        return Ready(run=lambda: numbers.sum(), check=lambda: wrong, components=parts)  # pyright: ignore


@dataclass(frozen=True)
class Impossible(Planted):
    """Claims to compute more than any machine can."""

    kind: ClassVar[str] = "impossible"

    def counts(self) -> Counts:
        return {"flops": 1e30}


@dataclass(frozen=True)
class Uncountable(Planted):
    """Cannot be counted, before any process is asked."""

    kind: ClassVar[str] = "uncountable"

    def counts(self) -> Counts:
        raise ArithmeticError("no count")


def fault(does: str, where: Path | None) -> None:
    """Go wrong."""
    if does == "segfault":
        ctypes.string_at(0)
    elif does == "hang":
        _leave(where, os.getpid())
        time.sleep(1000)
    elif does == "breed":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        _leave(where, child.pid)
        time.sleep(1000)
    elif does == "oom":
        import torch

        torch.empty(2**50)
    elif does == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif does == "exit":
        sys.stderr.write("a last word\n")
        sys.stderr.flush()
        os._exit(7)
    elif does == "raise":
        raise KeyError("nobody\nexpects this")
    elif does == "unsupported":
        raise NotImplementedError("it cannot run here")


def _leave(where: Path | None, pid: int) -> None:
    if where is not None:
        where.write_text(str(pid))


def main() -> None:
    """`[--fill-at BYTES] [--cases a,b=FILE,…] ARGUMENTS`: `python -m harness ARGUMENTS` whose suite quick is those
    cases, on a disk where files end at BYTES. Fails where this process, and not only the worker, has loaded torch."""
    import resource

    from harness import suites
    from harness.__main__ import main as harness_main
    from harness.measuring import timing
    from harness.running import runner

    # By the name under which the worker finds it: this module's is `__main__`.
    from tests.harness.running import planted

    arguments = sys.argv[1:]
    if arguments[0] == "--fill-at":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(arguments[1]), resource.RLIM_INFINITY))
        arguments = arguments[2:]
    words = [word.partition("=") for word in arguments[1].split(",")]
    cases = [planted.Planted(does, 1000 + i, where or None) for i, (does, _, where) in enumerate(words)]  # pyright: ignore
    suites.SUITES["quick"] = lambda environment: list(cases)
    runner.KERNEL = timing.Effort(goal=0.05, limit=0.1, warmup=0.1)
    sys.argv = ["harness", *arguments[2:]]
    try:
        harness_main()
    finally:
        assert "torch" not in sys.modules


if __name__ == "__main__":
    main()
