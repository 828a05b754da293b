"""Names on bars: where there is room, in white or black, whichever can be read."""

from __future__ import annotations

import pytest

from calc.charts import colours, memory
from tests.charts.test_colours import luminance


@pytest.mark.parametrize("name", [*colours.COLOURS])
def test_a_name_can_be_read_on_its_colour(name: str) -> None:
    def of(code: str) -> float:
        return luminance(tuple(int(code[i : i + 2], 16) for i in (1, 3, 5)))

    bright, dim = sorted((of(colours.colour(name)), of(colours.text_colour(name))), reverse=True)
    assert (bright + 0.05) / (dim + 0.05) >= 4.5


def test_wide_parts_are_named_and_the_others_are_stacked_with_them() -> None:
    terms = {"weights": 40, "gradients": 2, "optimizer": 58}
    bars, words = memory.memory_against_gpus(terms, {"weights": 40}, 100, {"l4": 90})["layer"][:2]
    said = {(row["bar"], row["part"]): row["word"] for row in words["data"]["values"]}
    assert said["all terms", "weights"] == "weights"
    assert said["all terms", "optimizer"] == "optimizer"
    assert said["all terms", "gradients"] == ""
    assert said["l4", "does not fit"] == ""
    assert len(said) == len(bars["data"]["values"])
