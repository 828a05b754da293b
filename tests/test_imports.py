"""Which way imports flow, and what is too heavy to load before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable

import pytest

import calc
from tests.imports import Graph, cycle, imported, modules, rooms
from tests.reference import ROOT

HEAVY = ("torch", "sympy", "pandas", "scipy", "numpy", "rich", "altair", "streamlit", "transformers")
ALLOWED = {
    "calc": {"calc"},
    "reference_models": {"reference_models", "calc.spec"},
    "harness": {"harness", "reference_models", "calc"},
    "dashboard": {"dashboard", "harness", "calc"},
}
"""Folder -> the packages of ours that it may import."""


def loaded_by(statement: str) -> list[str]:
    code = f"import sys; {statement}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.split()


@pytest.mark.parametrize(
    "statement",
    [
        "import calc",
        "import calc.tracing.loading, calc.tracing.capture, calc; assert calc.capture",
        "import calc; calc.estimate(calc.load_model('llama-3-8b'), 'flops.training')",
        "import calc.cli; calc.cli.cli.main(['params', 'gpt2', '--json'], standalone_mode=False)",
    ],
)
def test_nothing_heavy_is_loaded(statement: str) -> None:
    assert not set(HEAVY) & set(loaded_by(statement))


def test_every_public_name_is_there_and_documented() -> None:
    assert list(calc.__all__) == sorted(calc.__all__)
    for name in calc.__all__:
        assert (getattr(calc, name).__doc__ or "").strip(), name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = calc.nonsense


@pytest.mark.parametrize("package", [package for package in ALLOWED if (ROOT / package).is_dir()])
def test_arrows(package: str) -> None:
    faults = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in (ROOT / package).rglob("*.py")
        for name in imported(file)
        if name.split(".")[0] in ALLOWED and not any(f"{name}.".startswith(f"{ok}.") for ok in ALLOWED[package])
    ]
    assert not faults


@pytest.mark.parametrize(
    ("drawn", "package"), [(rooms, "calc"), (rooms, "calc.time"), (modules, "calc")], ids=["rooms", "time", "modules"]
)
def test_no_circles(drawn: Callable[[str], Graph], package: str) -> None:
    """Neither between the rooms of `calc` nor between its files; imports within functions count too."""
    assert cycle(drawn(package)) == []


def test_no_circles_among_the_pages() -> None:
    assert cycle(modules("dashboard")) == []


def test_the_harness_needs_nothing_of_the_command_line() -> None:
    faults = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in (ROOT / "harness").rglob("*.py")
        for name in imported(file)
        if f"{name}.".startswith("calc.cli.")
    ]
    assert not faults


def test_no_public_function_has_the_name_of_a_package() -> None:
    """But for a file's own function (`attention.attention`), commands, which are called what is typed, and importers,
    one a family, which all have a `spec` and speak of what configs have."""
    packages = {init.parent.name for init in (ROOT / "calc").rglob("__init__.py")} - {"calc"}
    spoken = {ROOT / "calc" / "cli", ROOT / "calc" / "architectures"}
    faults = [
        f"{file.relative_to(ROOT)}: {node.name}"
        for file in (ROOT / "calc").rglob("*.py")
        if file.parent not in spoken
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name in packages - {file.stem}
    ]
    assert not faults
    assert not packages & set(calc.__all__)


def test_torch_stands_in_one_room_of_the_calculator() -> None:
    faults = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in (ROOT / "calc").rglob("*.py")
        for name in imported(file)
        if name.split(".")[0] in ("torch", "transformers") and ROOT / "calc" / "tracing" not in file.parents
    ]
    assert not faults
