"""Documents that are worked through from top to bottom: their files written, their changes made, their commands run.

A block of code with a title writes the file of that name; one of `diff` with a title changes it: lines as they stand,
those to add behind `+`, those to take away behind `-`. Blocks of `sh` are run, and those of `console` must print what
stands there.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.reference import ROOT

PAGES = sorted([*(ROOT / "docs" / "tutorials").glob("*.md"), *(ROOT / "docs" / "adding").glob("*.md")])
FOLDERS = ("calc", "harness", "reference_models", "tests", "docs")
FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md")
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """One block. title: the file that it writes or changes; empty where its lines are commands."""

    language: str
    title: str
    text: str


def steps(page: Path) -> list[Step]:
    """The blocks that do something, in their order."""
    found = [Step(*match) for match in _BLOCK.findall(page.read_text(encoding="utf-8"))]
    return [step for step in found if step.title or step.language in ("sh", "console")]


def commands(step: Step) -> list[tuple[str, str | None]]:
    """(command, what it prints) of a block of `console`; without an output of one of `sh`."""
    if step.language == "sh":
        lines = step.text.replace("\\\n", " ").splitlines()
        return [(line, None) for line in lines if line and not line.startswith("#")]
    shown = re.split(r"^\$ ", step.text, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (each.partition("\n") for each in shown)]


def lay(folder: Path) -> None:
    """A checkout in `folder`, of links to the files of this one: what is written there replaces a link."""
    for name in FOLDERS:
        for path in (ROOT / name).rglob("*"):
            if path.is_file():
                place = folder / path.relative_to(ROOT)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(path)
    for name in FILES:
        (folder / name).symlink_to(ROOT / name)


def change(before: str, diff: str) -> str:
    """`before` with the lines of a block of `diff` put in. Errors: AssertionError if not there just once."""
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if not line.startswith("+"))
    new = "".join(line[1:] for line in lines if not line.startswith("-"))
    assert before.count(old) == 1, old
    return before.replace(old, new)


def write(folder: Path, step: Step) -> None:
    """Do what a block with a title says."""
    place = folder / step.title
    text = change(place.read_text(encoding="utf-8"), step.text) if step.language == "diff" else step.text
    if step.language != "diff":
        assert not place.exists(), place
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.write_text(text, encoding="utf-8")


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """A `python -m …` in the folder, as its shell would; `> FILE` takes its output."""
    words = shlex.split(command)
    assert words[:2] == ["python", "-m"], command
    words, into = (words[:-2], words[-1]) if words[-2] == ">" else (words, None)
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *words[1:]], cwd=folder, capture_output=True, encoding="utf-8", env=environment, check=False
    )
    if into:
        (folder / into).write_text(done.stdout, encoding="utf-8")
    return done


def work_through(page: Path, folder: Path) -> None:
    """Errors: AssertionError at the first command that fails, or prints something else."""
    for step in steps(page):
        if step.title:
            write(folder, step)
            continue
        for command, output in commands(step):
            done = run(folder, command)
            if output is None:
                assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
                assert done.stdout, command
            else:
                assert (done.stderr + done.stdout).rstrip() == output.rstrip(), command
