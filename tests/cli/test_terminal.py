"""Terminals that are not UTF-8: the same commands, with poorer signs, and JSON that says the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from calc.output.terminal import SIGNS
from tests.reference import ROOT


def said(encoding: str, *words: str) -> tuple[int, str, str]:
    variables = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=variables, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.mark.parametrize("encoding", ["cp1252", "cp437"])
@pytest.mark.parametrize("command", ["report gpt2", "memory gpt2 --gpu h100-sxm", "gpus"])
def test_signs_are_degraded_and_nothing_fails(encoding: str, command: str) -> None:
    status, out, err = said("utf-8", "calc", *command.split())
    for sign, plain in SIGNS.items():
        lacks = sign.encode(encoding, "ignore") == b""
        out, err = (text.replace(sign, plain) if lacks else text for text in (out, err))
    assert said(encoding, "calc", *command.split()) == (status, out, err)


def test_harness_too_and_foreign_names(tmp_path: Path) -> None:
    status, _, err = said("cp437", "harness", "compare", "--results", f"{tmp_path}/不…é")
    assert status in (0, 1, 2)
    assert "Traceback" not in err


def test_json_says_the_same_in_every_encoding() -> None:
    whole = said("utf-8", "calc", "gpus", "h100-sxm", "--json")
    poor = said("cp437", "calc", "gpus", "h100-sxm", "--json")
    assert json.loads(poor[1]) == json.loads(whole[1])
