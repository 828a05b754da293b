"""A server of the dashboard, started as a user starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from tests.reference import ROOT
from tests.waiting import PATIENCE


@contextmanager
def serving(results: Path, *options: str, cwd: Path = ROOT) -> Iterator[str]:
    """A server as a user starts it; its address. cwd: the folder that it is started in, as `envelope dashboard` is."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = [sys.executable, "-P", "-c", "from calc.cli import main; main()", "dashboard"]
    command = [*start, "--port", str(port), "--address", "127.0.0.1", "--no-open"]
    with NamedTemporaryFile(suffix=".log", delete=False) as file:
        log = Path(file.name)
        server = subprocess.Popen(
            [*command, "--results", str(results), *options],
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        _wait(f"http://127.0.0.1:{port}", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(PATIENCE)
        log.unlink()


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health") as answer:
            if answer.read() == b"ok":
                return
        time.sleep(0.1)
    pytest.fail(f"the server does not answer: {log.read_text()[-1000:]}")
