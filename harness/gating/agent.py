"""The child that measures one tree: `python -P agent.py TREE THREADS FD`, with TREE first on PYTHONPATH.

It is run by its path, so that both trees are measured by the same code, and uses no more of a tree than `make` of
`harness.cases`, a case's `counts`, `memory` and `ready`, and the twin that `reference_models.build` makes. torch and
the tree are imported once; then a process is forked off for each socket that comes in, with nothing computed before.
Each answers requests, JSON objects one a line: {"do": "counts" | "ready" | "warm" | "sample", …}.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

SAVED_SEQ = 32
"""Tokens of the sequence whose saved tensors are counted: enough that nothing is hidden in rounding."""

SHIFTED = 2**18
"""Bytes, more than any that were freed and wait to be used again."""


NO_RANDOM_ADDRESSES = 0x0040000
"""ADDR_NO_RANDOMIZE of personality(2)."""


def main() -> None:
    """Import, say so, and fork a process for every socket until the other side has gone."""
    _begin_at_fixed_addresses()
    tree, threads, control = Path(sys.argv[1]).resolve(), int(sys.argv[2]), socket.socket(fileno=int(sys.argv[3]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.sendall(json.dumps(_imported(tree)).encode() + b"\n")
    # What is there by now stays: the collector need not look at it before every sample.
    gc.collect()
    gc.freeze()
    while True:
        message, files, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            import torch

            torch.set_num_threads(threads)
            serve(socket.socket(fileno=files[0]))
            os._exit(0)
        os.close(files[0])


def _begin_at_fixed_addresses() -> None:
    """Start over with libraries where both trees have them: Linux draws other addresses for every program, and some
    are a few per cent faster for all that is forked off. Where that is not allowed, it stays as it is."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    now = libc.personality(0xFFFFFFFF)
    if now != -1 and not now & NO_RANDOM_ADDRESSES and libc.personality(now | NO_RANDOM_ADDRESSES) != -1:
        os.execv(sys.executable, sys.orig_argv)


def _imported(tree: Path) -> dict[str, Any]:
    """Import what is measured, and what every process would import otherwise; what became of that."""
    try:
        import torch

        # Every case resets the compiler, which would import all of it anew in every process.
        import torch._dynamo

        import harness.cases
        import reference_models
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    for module in (harness.cases, reference_models):
        if tree not in Path(str(module.__file__)).resolve().parents:
            return {"error": f"{module.__name__} was found at {module.__file__}, outside of the tree"}
    return {"torch": str(torch.__version__)}


def serve(line: socket.socket) -> None:
    """Answer requests until there are no more."""
    state = State()
    with line, line.makefile("rb") as requests:
        for text in requests:
            try:
                answer = {"value": state.answer(json.loads(text))}
            except NotImplementedError as error:
                answer = {"unsupported": str(error) or "it says no more"}
            except BaseException as error:
                answer = {"error": f"{type(error).__name__}: {str(error) or 'no message'}"[:500]}
            line.sendall(json.dumps(answer).encode() + b"\n")


class State:
    """What a process keeps from request to request: the case that is ready, and how many executions make a sample."""

    def __init__(self) -> None:
        self.ready: Any = None
        # Forks of one parent would all lay their tensors at the same distances in memory, which makes a pass some per
        # cent faster or slower; so each begins elsewhere, and that is noise like any other.
        self.shift = bytearray(SHIFTED + random.SystemRandom().randrange(SHIFTED))
        self.wait: Callable[[], Any] = lambda: None
        self.clock: Callable[[], int] = time.perf_counter_ns
        self.batch = 1
        self.extra = 0

    def answer(self, request: dict[str, Any]) -> Any:
        if request["do"] == "counts":
            return counts(request["kind"], request["params"])
        if request["do"] == "ready":
            return self.prepare(**{name: each for name, each in request.items() if name != "do"})
        if request["do"] == "warm":
            return self.warm(request["seconds"])
        self.batch, self.extra = request["batch"], request.get("extra", 0)
        return self.sample()

    def prepare(self, kind: str, params: dict[str, Any], device: str, clock: str) -> bool:
        """Make a case ready, and execute it once. clock: `wall`, or `cpu` for the time that this process computes."""
        import torch

        from harness.cases import make

        self.ready = make(kind, params).ready(device)  # pyright: ignore[reportArgumentType]
        self.clock = time.process_time_ns if clock == "cpu" else time.perf_counter_ns
        self.wait = torch.cuda.synchronize if device == "cuda" else self.wait
        self.sample()
        return True

    def warm(self, seconds: float) -> float:
        """Execute for that long, and at least twice; the median seconds of one execution."""
        from statistics import median

        end, times = time.perf_counter() + seconds, [self.sample(), self.sample()]
        while time.perf_counter() < end:
            times.append(self.sample())
        return median(times)

    def sample(self) -> float:
        """Seconds of one execution, as the mean over a batch. extra: executions that are done and not counted, which
        is how a slowdown is planted. What must come before every execution is outside of the time."""
        ready, rotate = self.ready, self.ready.rotate
        gc.collect()
        gc.disable()
        total = 0
        if rotate is None:
            # Another process's sample, or this one's own, was just in the cache.
            ready.run()
        try:
            for _ in range(self.batch + self.extra if rotate else 1):
                if rotate is not None:
                    rotate()
                self.wait()
                begin = self.clock()
                for _ in range(1 if rotate else self.batch + self.extra):
                    ready.run()
                self.wait()
                total += self.clock() - begin
        finally:
            gc.enable()
        return total / self.batch / 1e9


def counts(kind: str, params: dict[str, Any]) -> dict[str, float]:
    """What `calc` says of a case, and what its twin keeps for backward on a CPU."""
    from harness.cases import make

    case = make(kind, params)
    found = {name: float(value) for name, value in case.counts().items()}
    found["memory"] = float(case.memory())
    return found | (twin_counts(params["model"]) if "model" in params else {})


@cache
def twin_counts(model: str) -> dict[str, float]:
    """Parameters of a model that cases name, as `calc` counts them, and bytes that its twin keeps for backward."""
    from calc.ask.estimate import estimate
    from harness.cases.models import spec_of

    spec = spec_of(model)
    return {"params": float(estimate(spec, "params").value), "saved_bytes": float(saved_bytes(spec))}


def saved_bytes(spec: Any) -> int:
    """Bytes that one pass of the twin on a CPU keeps for backward, weights excluded."""
    import torch

    from reference_models import build
    from reference_models.inputs import example
    from reference_models.saved import saved_tensors

    torch.manual_seed(0)
    model = build(spec, "cpu")
    given = example(model, 1, SAVED_SEQ if spec.reads_tokens else 1)
    return saved_tensors(model, lambda: model(**given)).total


if __name__ == "__main__":
    main()
