"""A real server on this machine: forecast, loaded, compared; and servers that die, stall or answer garbage."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from calc.errors import Refused
from harness.serving.client import Load, drive, read_report
from harness.serving.engines import LAUNCHES, launched
from harness.serving.tiny import SIZES, make, prompt, words
from tests.reference import ROOT

PROFILE = ROOT / "results" / "profiles" / "cpu-intel-xeon-processor-2-cores.json"


def report_of(*requests: dict[str, Any], errored: int = 0) -> str:
    parts = {"successful": list(requests), "errored": [{}] * errored, "incomplete": None}
    return json.dumps({"benchmarks": [{"requests": parts}]})


ONE = {
    "request_start_time": 10.0,
    "request_end_time": 13.0,
    "time_to_first_token_ms": 1000.0,
    "prompt_tokens": 32,
    "output_tokens": 5,
}


def test_a_report_is_read() -> None:
    found = read_report(report_of(ONE, ONE | {"output_tokens": 0}, errored=3))
    assert found.failed == 3
    (each,) = found.answered
    assert (each.ttft, each.tpot, each.output) == (1.0, 0.5, 5)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmarks": []}', report_of(ONE | {"output_tokens": "x"})])
def test_reports_that_are_none(text: str) -> None:
    with pytest.raises(Refused):
        read_report(text)


def test_the_tiny_model_is_as_it_is_described(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    make(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    text = prompt(20, seed=1)
    assert len(tokenizer(text)["input_ids"]) == 20
    assert model.config.hidden_size == SIZES["hidden_size"]
    assert len(words()) == 256
    with torch.no_grad():
        assert model(torch.tensor([[3, 4]])).logits.shape == (1, 2, 259)


def test_an_engine_that_dies_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAUNCHES, "vllm", lambda model, port: [sys.executable, "-c", "raise SystemExit('no GPU here')"])
    with pytest.raises(Refused, match="no GPU here"), launched("vllm", "none", 1, tmp_path / "log"):
        raise AssertionError("it started")


def test_an_engine_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with a child of its own: neither is left when the block ends, whatever happened in it."""
    code = (
        "import subprocess, sys; from http.server import *\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\n"
        "class Fine(BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(200); self.end_headers()\n"
        "HTTPServer(('127.0.0.1', int(sys.argv[2])), Fine).serve_forever()"
    )
    pid = tmp_path / "pid"
    monkeypatch.setitem(LAUNCHES, "vllm", lambda model, port: [sys.executable, "-c", code, str(pid), str(port)])

    def fails_inside() -> None:
        with launched("vllm", "none", _free(), tmp_path / "log"):
            os.kill(int(pid.read_text()), 0)
            raise KeyError

    with pytest.raises(KeyError):
        fails_inside()
    child = int(pid.read_text())
    time.sleep(0.2)
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]


def _free() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def needs_everything() -> None:
    """A real engine and a real client, of the extras serving and serve."""
    for name in ("accelerate", "fastapi", "guidellm"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install -e .[serve,serving] in a clone")


@pytest.mark.slow
def test_a_real_server(tmp_path: Path) -> None:
    needs_everything()
    load = ["--concurrency", "2", "--input", "32", "--output", "16", "--requests", "12"]
    command = [sys.executable, "-m", "harness", "serve", "--launch", "transformers", "--model", "tiny", "--json"]
    done = subprocess.run(
        [*command, "--profile", str(PROFILE), "--dtype", "fp32", *load, "--results", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stderr[-500:]
    record = json.loads(done.stdout.splitlines()[-1])
    assert record["answered"] == 12
    for name in ("ttft", "tpot", "e2e"):
        compared = record["compared"][name]
        assert 0 < compared["measured"]["p50"] <= compared["measured"]["p99"]
        assert compared["predicted"]["mean"] > 0
    (kept,) = (tmp_path / "serving").rglob("*.jsonl")
    assert len(json.loads(kept.read_text())["requests"]) == 12


@pytest.mark.slow
def test_what_was_finished_before_a_server_died_is_kept(tmp_path: Path) -> None:
    needs_everything()
    model = tmp_path / "tiny"
    make(model)
    port = _free()
    load = Load([prompt(32, seed) for seed in range(64)], 64, 400, 2, None, 60.0, False)
    with launched("transformers", str(model), port, tmp_path / "log"):
        address = f"http://127.0.0.1:{port}"
        threading.Thread(target=_kill_when_busy, args=(_listening(port), tmp_path / "log"), daemon=True).start()
        found = drive(address, str(model), str(model), load)
    assert found.answered
    assert found.failed or len(found.answered) < 400


def _kill_when_busy(server: int, log: Path) -> None:
    """End a server that has answered six requests."""
    while log.read_bytes().count(b"200 OK") < 6 + 1:
        time.sleep(0.1)
    time.sleep(1.0)
    os.kill(server, signal.SIGKILL)


def _listening(port: int) -> int:
    """The process that was told to serve a port."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(port).encode() in words:
            return int(folder.name)
    raise AssertionError(f"nobody was told to serve {port}")
