"""Opening a page as a visitor does, without a browser, and asking the command line for the same numbers."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

from streamlit.testing.v1 import AppTest

from dashboard import frame
from tests.reference import ROOT
from tests.waiting import PATIENCE


def opened(page: str, **address: str | list[str]) -> AppTest:
    """The page at that path, with `address` as what stands behind the question mark, drawn once without a fault, for a
    visitor who has opened the fold of commands before."""
    at = AppTest.from_string(f"from dashboard import main\nmain.run({page!r})", default_timeout=PATIENCE)
    for name, value in address.items():
        at.query_params[name] = value
    at.session_state[frame.SHOWN] = True
    return sound(at.run())


def sound(at: AppTest) -> AppTest:
    """The same page, if nothing in it has failed."""
    assert not at.exception, [each.value for each in at.exception]
    return at


def cli(*words: str, status: int = 0) -> list[dict[str, Any]]:
    """What `python -m calc WORDS --json` prints, one record a line. status: with which it ends."""
    command = [sys.executable, "-m", "calc", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def shown_command(at: AppTest) -> list[str]:
    """The words of the first command that the page shows behind `python -m calc`."""
    lines = [line for block in at.code for line in block.value.splitlines() if line.startswith("python -m calc ")]
    return shlex.split(lines[0])[3:]


def metrics(at: AppTest) -> dict[str, str]:
    """Label -> value of every figure on the page."""
    return {each.label: each.value for each in at.metric}


def errors(at: AppTest) -> list[str]:
    """What the page refuses."""
    return [each.value for each in at.error]
