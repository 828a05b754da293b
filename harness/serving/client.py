"""Load on a server that speaks OpenAI's protocol, by guidellm, and what it measured of every request."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from calc.errors import Refused
from calc.reading.files import parse_json

MISSING = "guidellm: pip install -e '.[serve]' in a clone"
LARGEST = 2**30
FIRST = 600.0
"""Seconds that the first answer may take."""
ERRORS = 10
"""Failed requests after which no more are sent: a server that is gone is not asked for hours."""
GRACE = 120.0
"""Seconds beyond the limit that the client may take to start and to write down what it has."""


@dataclass(frozen=True, slots=True)
class Load:
    """What clients do. concurrency or rate: as in `serve`. prompts: their texts. output: tokens of an answer. limit:
    seconds after which no answer is waited for. forced: whether the server is told to go on behind an end of text."""

    prompts: Sequence[str]
    output: int
    requests: int
    concurrency: int | None
    rate: float | None
    limit: float
    forced: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """One finished request: seconds, and tokens as the server counted them."""

    started: float
    ended: float
    ttft: float
    tpot: float | None
    input: int
    output: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What was finished; failed: requests that were not."""

    answered: tuple[Answered, ...]
    failed: int


def drive(address: str, model: str, tokenizer: str, load: Load) -> Measured:
    """Load a server and come back with all that was finished, whatever became of the server.

    Errors: Refused where guidellm is not installed, or wrote nothing down.
    """
    if find_spec("guidellm") is None:
        raise Refused("client", MISSING, "no guidellm")
    with tempfile.TemporaryDirectory() as folder:
        prompts, report = Path(folder, "prompts.jsonl"), Path(folder, "report.json")
        prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in load.prompts))
        command = _command(address, model, tokenizer, load, prompts, report)
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                timeout=load.limit + GRACE,
                check=False,
                encoding="utf-8",
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            raise Refused("client", "a report within its time", "none") from None
        if not report.exists():
            last = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            raise Refused("client", "a report of guidellm's", last[-1][-200:] if last else f"exit {done.returncode}")
        if report.stat().st_size > LARGEST:
            raise Refused("client", "a report below 1 GiB", "more")
        return read_report(report.read_text())


def warm(address: str, model: str, text: str, tokens: int) -> None:
    """Ask once, so that what is loaded or compiled at the first request is there. Errors: Refused for no answer."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": tokens}
    base = address.removesuffix("/").removesuffix("/v1")
    request = Request(f"{base}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=FIRST) as reply:
            reply.read(LARGEST)
    except (OSError, HTTPException) as error:
        raise Refused("--url", f"a server that answers {base}/v1/chat/completions", str(error)[:120]) from None


def _command(address: str, model: str, tokenizer: str, load: Load, prompts: Path, report: Path) -> list[str]:
    body: dict[str, Any] = {"max_tokens": load.output}
    if load.forced:
        body["ignore_eos"] = True
    backend = {
        "kind": "openai_http",
        "target": address.removesuffix("/").removesuffix("/v1"),
        "model": model,
        "request_format": "/v1/chat/completions",
        "validate_backend": False,
        "extras": {"body": body},
    }
    profile = (
        {"kind": "concurrent", "streams": load.concurrency}
        if load.concurrency is not None
        else {"kind": "poisson", "rate": load.rate}
    )
    found = shutil.which("guidellm", path=str(Path(sys.executable).parent)) or "guidellm"
    words = {
        "--backend": [backend],
        "--profile": [profile],
        "--constraint": [
            {"kind": "max_requests", "count": load.requests},
            {"kind": "max_duration", "seconds": load.limit},
            {"kind": "max_errors", "count": ERRORS},
        ],
        "--tokenizer": [{"kind": "huggingface_auto", "model": tokenizer}],
        "--data": [{"kind": "json_file", "path": str(prompts)}],
        "--output": [{"kind": "json", "path": str(report)}],
    }
    options = [part for option, values in words.items() for value in values for part in (option, json.dumps(value))]
    return [found, "run", *options, "--disable-console"]


def read_report(text: str) -> Measured:
    """The requests of guidellm's report. Errors: Refused for what is none."""
    table = parse_json(text, "guidellm's report")
    try:
        requests = table["benchmarks"][0]["requests"]
        answered = tuple(_answered(each) for each in requests["successful"] or ())
        failed = sum(len(requests[name] or ()) for name in ("errored", "incomplete"))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Refused("client", "requests in guidellm's report", repr(error)[:80]) from None
    return Measured(tuple(each for each in answered if each is not None), failed)


def _answered(each: dict[str, Any]) -> Answered | None:
    """A request that brought tokens; None for one that brought none."""
    output, first = int(each["output_tokens"] or 0), each["time_to_first_token_ms"]
    if output < 1 or first is None:
        return None
    started, ended = float(each["request_start_time"]), float(each["request_end_time"])
    ttft = float(first) / 1000
    tpot = (ended - started - ttft) / (output - 1) if output > 1 else None
    return Answered(started, ended, ttft, tpot, int(each["prompt_tokens"] or 0), output)
