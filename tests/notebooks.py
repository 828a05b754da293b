"""Notebooks, run cell by cell in a process of their own; `python -m tests.notebooks FILE…` writes what they print.

No Jupyter is needed: cells are Python alone, and say what they show by `print`.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

MEASURED = "measured"
"""Tag of a cell whose output is another on every machine."""


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict[str, Any]) -> str:
    """What the file says that the cell printed."""
    return "".join(text for output in cell["outputs"] for text in output["text"])


def run(notebook: dict[str, Any]) -> list[str]:
    """What each cell of code prints, with warnings as errors. Errors: whatever a cell raises."""
    names: dict[str, Any] = {"__name__": "__main__"}
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for place, cell in enumerate(code(notebook), 1):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("".join(cell["source"]), f"cell {place}", "exec"), names)
            said.append(out.getvalue())
    return said


def write(path: Path) -> None:
    """Run the notebook and put what its cells print into the file."""
    notebook = read(path)
    for place, (cell, text) in enumerate(zip(code(notebook), run(notebook), strict=True), 1):
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = place
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name))
