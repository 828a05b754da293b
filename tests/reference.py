"""Where the reference data is: what real implementations contain, measured outside this repository."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).absolute().parent.parent
ABSENT = "no reference data: set ENVELOPE_REFERENCE to the folder that holds truth/models.json"


def find() -> Path | None:
    """The folder of reference data, or None: $ENVELOPE_REFERENCE, else `shared` beside the repository."""
    folder = Path(os.environ.get("ENVELOPE_REFERENCE", "../shared"))
    folder = folder if folder.is_absolute() else ROOT / folder
    return folder if (folder / "truth" / "models.json").is_file() else None


def folder() -> Path:
    """The folder of reference data; a test that asks for it is skipped where there is none."""
    found = find()
    if found is None:
        pytest.skip(ABSENT, allow_module_level=True)
    return found


@cache
def models() -> list[dict[str, Any]]:
    """Every record of truth/models.json, or none where the data is absent."""
    found = find()
    return [] if found is None else json.loads((found / "truth" / "models.json").read_text())


@cache
def config(name: str) -> dict[str, Any]:
    """The config.json of the model called `name`."""
    return json.loads((folder() / "truth" / "configs" / f"{name}.json").read_text())
