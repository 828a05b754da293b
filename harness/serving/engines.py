"""Engines as processes: started, waited for, ended with all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from calc.errors import Refused

STARTS, POLL = 600.0, 0.5
"""Seconds that an engine may take to answer, and between questions."""
ENDS = 20.0
"""Seconds that it may take to end."""


def _transformers(model: str, port: int) -> list[str]:
    if find_spec("accelerate") is None or find_spec("fastapi") is None:
        raise Refused("--launch", "transformers: pip install -e '.[serving]' in a clone", "parts of it")
    run = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"
    serve = ["serve", model, "--continuous-batching", "--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-c", run, *serve]


def _vllm(model: str, port: int) -> list[str]:
    return ["vllm", "serve", model, "--host", "127.0.0.1", "--port", str(port)]


def _sglang(model: str, port: int) -> list[str]:
    module = ["-m", "sglang.launch_server", "--model-path", model]
    return [sys.executable, *module, "--host", "127.0.0.1", "--port", str(port)]


def _llama_cpp(model: str, port: int) -> list[str]:
    return ["llama-server", "--model", model, "--host", "127.0.0.1", "--port", str(port)]


LAUNCHES: dict[str, Callable[[str, int], list[str]]] = {
    "transformers": _transformers,
    "vllm": _vllm,
    "sglang": _sglang,
    "llama.cpp": _llama_cpp,
}
"""Engine -> the command that serves a model at a port of this machine."""


@contextmanager
def launched(engine: str, model: str, port: int, log: Path) -> Iterator[str]:
    """The address of an engine that was started for as long as it is needed; what it says goes to `log`.

    Errors: Refused for an engine that is not installed, and for one that ends, or does not answer in time.
    """
    command = LAUNCHES[engine](model, port)
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        except FileNotFoundError:
            raise Refused("--launch", "an engine that is installed", engine) from None
        try:
            _answers(process, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}"
        finally:
            _end(process)


def _answers(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + STARTS
    while time.monotonic() < until:
        if process.poll() is not None:
            last = log.read_bytes()[-400:].decode(errors="replace").strip().splitlines()
            raise Refused("--launch", "an engine that starts", last[-1] if last else f"exit {process.returncode}")
        try:
            with urlopen(address, timeout=2):
                return
        except (URLError, OSError):
            time.sleep(POLL)
    raise Refused("--launch", f"an engine that answers within {STARTS:.0f} s", "none")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children: asked first."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, sign)
            try:
                process.wait(ENDS)
            except subprocess.TimeoutExpired:
                continue
    process.wait()
