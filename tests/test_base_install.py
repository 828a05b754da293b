"""What works where no extra is installed: every help page, and a refusal of what needs more."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest

from calc.cli import COMMANDS, OTHER_COMMANDS
from harness.__main__ import COMMANDS as HARNESS
from harness.environment import PYTHON, child_variables
from tests.test_extras import PRODUCT, PROJECT, names

Run = Callable[..., subprocess.CompletedProcess[str]]

# As sitecustomize it is imported by every Python that starts, children included.
ALONE = """
import importlib.util, sys
foreign = set({foreign!r})
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in foreign:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Missing())
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *given: None if name.split(".")[0] in foreign else find_spec(name, *given)
"""


def needed() -> set[str]:
    """The packages that the base package brings with it, in small letters."""
    found: set[str] = set()
    left = [name.lower() for name in names(PROJECT["dependencies"])]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        try:
            further = [each for each in requires(name) or [] if "extra ==" not in each]
        except PackageNotFoundError:  # of another platform
            continue
        left += [re.split(r"[^\w.-]", each)[0].lower().replace("_", "-") for each in further]
    return found


def foreign() -> list[str]:
    """The modules here that are neither Python's, nor ours, nor of what the base needs."""
    base = needed()
    return [
        module
        for module, owners in packages_distributions().items()
        if module not in (*PRODUCT, "tests") and not {each.lower().replace("_", "-") for each in owners} & base
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A module run as it would be without any package that the base does not need."""
    strange, folder = foreign(), tmp_path_factory.mktemp("site")
    assert {"torch", "streamlit", "starlette"} <= set(strange)
    (folder / "sitecustomize.py").write_text(ALONE.format(foreign=strange))
    there = {**child_variables(), "PYTHONPATH": f"{folder}{os.pathsep}{child_variables()['PYTHONPATH']}"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*PYTHON, "-m", *words]
        return subprocess.run(command, cwd=folder, env=there, text=True, capture_output=True, check=False)

    return run


@pytest.mark.parametrize("module", ["calc", "harness"])
def test_help_names_every_command(module: str, alone: Run) -> None:
    done = alone(module, "--help")
    assert done.returncode == 0, done.stderr
    commands = [*COMMANDS, *OTHER_COMMANDS] if module == "calc" else HARNESS
    assert all(re.search(rf"^  {name}\b", done.stdout, re.M) for name in commands)


@pytest.mark.parametrize(
    "words",
    [
        ("calc", "dashboard", "--no-open"),
        ("calc", "params", "module.py:build", "--traced"),
        ("calc", "optimal", "--compute", "1e21", "--chart", "picture.svg"),
        ("harness", "run", "--suite", "quick"),
        ("harness", "profile"),
        ("harness", "fleet", "--ray", "auto"),
    ],
    ids=" ".join,
)
def test_what_needs_an_extra_names_it_in_one_line(words: tuple[str, ...], alone: Run) -> None:
    done = alone(*words)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "pip install" in done.stderr or "the extra" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("params", "llama-3-8b"),
        ("report", "llama-3-8b"),
        ("predict", "llama-3-8b", "--gpu", "h100-sxm", "--phase", "decode"),
        ("optimal", "--compute", "1e21"),
        ("serve", "llama-3-8b", "--gpu", "h100-sxm", "--input", "512", "--output", "64", "--concurrency", "4"),
    ],
    ids=lambda words: words[0],
)
def test_the_main_jobs_need_no_extra(words: tuple[str, ...], alone: Run) -> None:
    done = alone("calc", *words)
    assert done.returncode == 0, done.stderr
