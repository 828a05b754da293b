"""The page's table of types that trace: a few of its rows, tried anew. `tests.tracing.table` makes all of it."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import traceable
from tests.reference import ROOT
from tests.tracing.table import REASONS, page, reason, verdict

SAMPLED = (
    "apertus",
    "beit",
    "roformer",
    "segformer",
    "aria_text",
    "bark",
    "conditional_detr",
    "dots3_note_vision_encoder",
)


def documented() -> dict[str, str]:
    """Type -> what the page says became of it."""
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (`.+`) \|$", (ROOT / "docs" / "tracing.md").read_text(), re.MULTILINE)
    found = {}
    for meaning, n, names in rows:
        types = re.findall(r"`([^`]+)`", names)
        assert len(types) == int(n)
        found |= dict.fromkeys(types, meaning)
    return found


@pytest.mark.parametrize("model_type", SAMPLED)
def test_a_row_of_the_page_comes_out_again(model_type: str) -> None:
    assert reason(verdict(model_type)) == documented()[model_type]


def test_the_page_names_types_of_transformers_and_none_that_differs() -> None:
    found = documented()
    assert found.keys() <= traceable()
    assert set(found.values()) <= {meaning for _, meaning in REASONS}
    assert "differ from PyTorch's own count" not in found.values()
    assert sum(meaning == "trace, parameters, FLOPs and bytes kept equal" for meaning in found.values()) >= 400


def test_rows_are_sorted_by_what_they_say() -> None:
    made = page(["| `b` |  | yes |\n", "| `a` | by hand | yes |\n", "| `c` |  | config: ImportError: timm |\n"])
    assert "| trace, parameters, FLOPs and bytes kept equal | 2 | `a`, `b` |" in made
    assert "| need a package beside transformers (timm, natten, detectron2, …) | 1 | `c` |" in made
