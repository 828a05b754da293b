"""`scaling/<device>/runs.csv` under the results: a row a training, as `calc fit` reads it, only ever added to."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.store import append_lines

COLUMNS = (
    "source",
    "run",
    "dataset",
    "params_total",
    "params_nonemb",
    "tokens",
    "unique_tokens",
    "flops",
    "loss",
    "lr",
    "batch_tokens",
    "extra",
    "notes",
)
Key = tuple[str, int]
"""A model's name, and the tokens it was trained on."""


def path_of(results: Path, slug: str) -> Path:
    """The file of a device."""
    return results / "scaling" / slug / "runs.csv"


def add(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows at once, below the names of the columns; return once they are on the disk. Errors: OSError."""
    text = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    if not path.exists():
        writer.writeheader()
    writer.writerows(rows)
    append_lines(path, text.getvalue().encode())


def read(path: Path, dataset: str) -> dict[Key, dict[str, float]]:
    """Losses and sizes of one dataset by model and budget, the first where one stands there twice.

    Lines that are no such row are passed over: a kill may have torn one.
    """
    found: dict[Key, dict[str, float]] = {}
    if not path.is_file():
        return found
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        for row in csv.DictReader(file, COLUMNS):
            # float() fails for None and for words, and so for what is no whole row.
            with suppress(ValueError, TypeError):
                numbers = {name: float(row[name]) for name in ("params_total", "tokens", "flops", "loss")}
                if row["dataset"] == dataset and row["extra"] is not None:
                    found.setdefault((row["run"], int(numbers["tokens"])), numbers)
    return found
