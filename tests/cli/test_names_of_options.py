"""Options that a person tries by another command's name, or by a long one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from calc.cli import cli


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "calc", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("predict", "gpt2", "--gpu", "l4", "--mode", "training"), "--phase"),
        (("predict", "gpt2", "--gpu", "l4", "--tensor-parallel", "2"), "--tp"),
        (("memory", "gpt2", "--tensor-parallel", "2"), "--tp"),
        (("plan", "gpt2", "--on", "l4"), "--cluster"),
        (("plan", "gpt2", "--serve", "--gpu", "l4"), "--on"),
        (("serve", "gpt2", "--on", "l4"), "--gpu"),
    ],
)
def test_an_error_names_the_option_that_is_meant(words: tuple[str, ...], meant: str) -> None:
    done = _run(*words)
    assert done.returncode == 2
    assert f"Did you mean '{meant}'?" in done.stderr


@pytest.mark.parametrize("mode", ["training", "inference"])
def test_memory_takes_the_phase_as_its_mode(mode: str) -> None:
    outs = [
        CliRunner().invoke(cli, ["memory", "gpt2", "--seq", "64", option, mode, "--json"], catch_exceptions=False)
        for option in ("--mode", "--phase")
    ]
    first, second = (json.loads(out.stdout) for out in outs)
    assert first == second
    assert first["run"]["mode"] == mode


@pytest.mark.parametrize("command", ["memory", "attention", "predict"])
def test_examples_of_a_help_page_fit_80_columns(command: str) -> None:
    text = CliRunner().invoke(cli, [command, "--help"], terminal_width=80).stdout
    assert [line for line in text.splitlines() if "python -m calc" in line and len(line) > 80] == []
