"""The notebooks of `examples/` run, and print what they hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import notebooks
from tests.reference import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))
RUN = """\
import json, sys
from pathlib import Path
from tests import notebooks
print(json.dumps(notebooks.run(notebooks.read(Path(sys.argv[1])))))
"""


def test_every_job_has_a_notebook() -> None:
    assert {path.stem for path in EXAMPLES} == {"config-to-plan", "law-from-runs", "server-sized", "kernel-measured"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_holds(path: Path) -> None:
    """In a process of its own, since a notebook may load what others must not have loaded."""
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cells = notebooks.code(notebooks.read(path))
    assert len(cells) > 2
    for cell, said in zip(cells, json.loads(done.stdout), strict=True):
        if notebooks.MEASURED in cell["metadata"].get("tags", ()):
            # The words stay, the figures are this machine's.
            assert [line.split(" ")[0] for line in said.splitlines()] == [
                line.split(" ")[0] for line in notebooks.printed(cell).splitlines()
            ]
        else:
            assert said == notebooks.printed(cell)


def test_a_cell_that_fails_or_warns_is_noticed() -> None:
    for source in ("1 / 0", "import warnings; warnings.warn('so')"):
        cell = {"cell_type": "code", "source": [source], "metadata": {}, "outputs": []}
        with pytest.raises((ZeroDivisionError, UserWarning)):
            notebooks.run({"cells": [cell]})
