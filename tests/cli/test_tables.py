"""Tables for a pipe are laid out here, those for a terminal by rich: where both can, they give the same text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.output import tables
from calc.output.dotted import short_names
from calc.output.tables import Table

LINES = st.text(alphabet="ab 1290,.%é×–→≤μ-_/", max_size=12)
CELLS = LINES | st.builds("{}…\n{}".format, LINES, LINES)
WIDTHS = st.integers(1, 4)


def table(width: int) -> st.SearchStrategy[Table]:
    row = st.lists(CELLS, min_size=width, max_size=width)
    names = st.lists(LINES, min_size=width, max_size=width)
    return st.builds(
        Table, names, st.lists(row, min_size=1, max_size=4), CELLS, CELLS, st.just(()), st.just(""), st.just("")
    )


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


@settings(max_examples=100, deadline=None)
@given(st.lists(WIDTHS.flatmap(table), min_size=1, max_size=2))
def test_a_pipe_is_given_what_rich_would_give_it(several: list[Table]) -> None:
    assert all(map(tables._one_wide, several))
    assert lines(tables._wide(several)) == lines(tables._fitted(several, narrow=False))


def test_letters_of_other_widths_are_left_to_rich() -> None:
    plain = Table(("name", "n"), [("llama", "1")])
    assert tables._one_wide(plain)
    titles = ("模型", "e\u0301", "🦙", "\t")
    assert not any(tables._one_wide(plain._replace(title=title)) for title in titles)


def test_names_that_are_to_be_copied_are_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 80 columns words fold; a name that leaves other columns no room stands above them, on a line of its own."""
    monkeypatch.setenv("COLUMNS", "80")
    for length in (36, 118):
        case = "matmul/m=" + "1" * (length - 9)
        rows = [("ok", case, "1.2 ms", "1.0 ms", "no memory was left for what backward makes anew")]
        made = Table(("status", "case", "time", "predicted", "why"), rows, spare=("predicted",), whole="case")
        text = tables._fitted([made], narrow=True)
        assert "1.0 ms" in text
        assert "not shown" not in text
        assert (case in lines(text)) == (length > 36)
        assert case in text
        assert all(len(line) <= 80 for line in lines(text.replace(case, "")))
        folded = Table(("status", "case", "time"), [("ok", case * 2, "1.2 ms")])
        assert case * 2 not in tables._fitted([folded], narrow=True)


def test_names_that_are_cut_are_told_apart() -> None:
    """By their ends where these differ, then by the kind of layer, then by more of the name over lines."""
    names = [f"layers.{{{kind}}}.moe.{of}.up_proj" for kind in ("linear", "full") for of in ("experts", "shared")]
    short = short_names([*names, "layers.{full}.attention.o_proj", "lm_head.logits"], 16)
    assert short == [
        "{linear}….\nexperts.up_proj",
        "{linear}….\nshared.up_proj",
        "{full}….experts.\nup_proj",
        "{full}….shared.\nup_proj",
        "….o_proj",
        "lm_head.logits",
    ]
    assert short_names(names[::2], 18) == ["{linear}….up_proj", "{full}….up_proj"]
    assert short_names(names[:2], 18) == ["….experts.up_proj", "….shared.up_proj"]
