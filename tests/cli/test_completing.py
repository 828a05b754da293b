"""Completion in a shell: what begins as a word does, from the lists that the commands read."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from calc import preset_names
from calc.cli import cli
from calc.laws import BY_NAME
from calc.spec.catalogue import device_names
from calc.teaching.complexity import LAYER_KINDS
from tests.reference import ROOT


def completed(words: str, begun: str) -> list[tuple[str, str]]:
    found = ShellComplete(cli, {}, "envelope", "_ENVELOPE_COMPLETE").get_completions(words.split(), begun)
    return [(item.type, item.value) for item in found]


@pytest.mark.parametrize(
    ("words", "begun", "known"),
    [
        ("report", "llama-", preset_names()),
        ("params gpt2", "q", preset_names()),
        ("memory gpt2 --gpu", "h", device_names()),
        ("gpus", "", device_names()),
        ("laws", "h", list(BY_NAME)),
        ("optimal --law", "", list(BY_NAME)),
    ],
)
def test_names_are_completed(words: str, begun: str, known: list[str]) -> None:
    expected = [("plain", name) for name in known if name.startswith(begun)]
    assert completed(words, begun) == expected
    assert expected


def test_quantities_commands_and_files_are_completed() -> None:
    assert ("plain", "flops.training") in completed("explain gpt2", "flops")
    assert completed("", "pre") == [("plain", "predict")]
    assert completed("report", "./x") == [("file", "./x")]
    assert completed("fit", "") == [("file", "")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_a_script(shell: str) -> None:
    variables = {**os.environ, "_ENVELOPE_COMPLETE": f"{shell}_source"}
    command = [sys.executable, "-c", "import sys; sys.argv = ['envelope']; from calc.cli import main; main()"]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert "_ENVELOPE_COMPLETE" in done.stdout or "bash" in done.stderr.lower()
    assert done.returncode == 0 or "bash" in done.stderr.lower()


def test_the_catalogue_fits_eighty_columns() -> None:
    def listed(columns: str) -> str:
        command = [sys.executable, "-m", "calc", "gpus"]
        variables = {**os.environ, "COLUMNS": columns}
        return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True).stdout

    narrow = listed("80")
    assert max(map(len, narrow.splitlines())) <= 80
    assert "not shown in 80 columns: reported" in narrow
    assert all(name in narrow for name in device_names())
    assert "reported" in listed("200").splitlines()[1]


@pytest.mark.parametrize("more", [(), ("--seq", "50176", "--d-model", "768")])
def test_kinds_of_layers_fit_eighty_columns_and_no_name_is_broken(more: tuple[str, ...]) -> None:
    variables = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-m", "calc", "complexity", *more]
    lines = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert max(map(len, lines)) <= 80
    for kind in LAYER_KINDS:
        assert sum(line.startswith(f"{kind.name}  ") for line in lines) == 2
