"""Links: every knob stands in them, and whatever they hold, a page says at most one plain message."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import dashboard
from dashboard.menu import PAGES
from tests.dashboard.opening import errors, opened, shown_command, sound
from tests.dashboard.test_model import charts, rows
from tests.waiting import PATIENCE

FOLDER = Path(dashboard.__file__).parent
KNOBS = {
    "selectbox", "select_slider", "slider", "number_input", "text_input", "text_area", "toggle", "checkbox", "radio",
    "segmented_control", "pills", "multiselect", "file_uploader",
}  # fmt: skip
LEFT_OUT = {"upload", "pasted", "runs", "run_suite", "run_case", "run_fresh", "run_profile"}
"""Files, which no address holds (a description is packed into it by hand), and what one run of the harness is asked."""
BY_HAND = {"part"}
"""What the page itself keeps in the address."""
HOSTILE = (
    "", "999999999999999999999999", "-1", "nan", "1e400", "0", "null", "[1,2]", "../../etc/passwd",
    "<img src=x onerror=alert(1)>", "\u202e\U0001f4a5", "x" * 5000,
)  # fmt: skip

EVERY = 3
"""Each page is given every third of them, and each of them stands in every third page: knobs are read in one place."""


def knobs() -> Iterator[tuple[str, str, bool]]:
    """(where, key, whether it is bound to the address) of every widget that a visitor sets."""
    for path in FOLDER.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in KNOBS:
                given = {each.arg: ast.unparse(each.value) for each in call.keywords}
                yield f"{path.name}:{call.lineno}", given.get("key", "").strip("'"), "bind" in given


def test_every_knob_is_in_the_address_but_files_and_the_form_of_a_run() -> None:
    found = list(knobs())
    assert len(found) > 50
    assert {key for _, key, bound in found if not bound} == LEFT_OUT | BY_HAND
    assert all(key for _, key, _ in found)


def named() -> list[str]:
    """Every key that an address may hold; those that the code has in a variable are of plans and lengths."""
    keys = {key for _, key, bound in knobs() if bound} - {"model", "from"}
    return [*keys, *BY_HAND, "dp", "tp", "pp", "cp", "ep", "recipe", "weights_in", "seq", "context"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "value"),
    [
        pytest.param(entry.path, value, id=f"{entry.path}-{value[:12]!r}")
        for at, entry in enumerate(PAGES)
        for place, value in enumerate(HOSTILE)
        if (place - at) % EVERY == 0
    ],
)
def test_a_hostile_value_for_every_knob_is_at_most_plain_messages(page: str, value: str) -> None:
    at = opened(page, model="gpt2", **dict.fromkeys(named(), value))
    for message in errors(at):
        assert message.endswith("`")
        assert "\n" not in message
        assert len(message) < 400


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value[:12]))
def test_a_hostile_value_for_every_slider_of_the_shorthand_is_a_model_or_a_message(value: str) -> None:
    at = opened("model", **{"from": "Shorthand"}, **dict.fromkeys(named(), value))
    assert bool(at.metric) != bool(errors(at))


def test_a_link_with_more_presets_than_fit_shows_as_many_as_do() -> None:
    named = ["gpt2", "llama-3-70b", "gemma-2-9b", "gemma-2-2b", "mixtral-8x7b", "gpt2"]
    at = AppTest.from_string("from dashboard import main\nmain.run('memory')", default_timeout=PATIENCE)
    at.query_params["model"], at.query_params["beside"] = "gpt2", named
    sound(at.run())
    assert errors(at) == []
    lines = {row["model"] for row in rows(charts(at)[-1])}
    assert len([name for name in lines if ":" not in name]) <= 4


def test_a_length_that_was_the_last_models_usual_one_is_not_kept_for_the_next() -> None:
    at = opened("model", model="llama-3-8b")
    for model, usual in (("bert-base", 512), ("gpt2", 1024), ("llama-3-8b", 2048)):
        sound(at.selectbox(key="model").set_value(model).run())
        assert at.select_slider(key="seq").value == usual
    sound(at.select_slider(key="seq").set_value(4096).run())
    sound(at.selectbox(key="model").set_value("bert-base").run())
    assert at.select_slider(key="seq").value == 4096
    assert "⚠ Past the 512 tokens that the model is made for." in [each.value for each in at.caption]


def test_a_link_that_a_page_cannot_show_is_refused_and_not_answered_for_something_else() -> None:
    at = opened("memory", model="gpt2", gpu="rtx4090")
    (said,) = errors(at)
    assert said.startswith("This link cannot be shown: `gpu: expected a choice of this page")
    assert "rtx-4090" in said
    assert not at.metric
    sound(at.button[0].click().run())
    assert at.metric
    assert not any("cannot be shown" in each for each in errors(at))


def test_what_a_page_does_not_read_of_its_link_is_said_in_one_line() -> None:
    """A knob that is misspelt, and one of a page that is not open."""
    at = opened("memory", model="gpt2", batchsize="3", dp="2", tokens="1T")
    assert unread(at) == ["⚠ Of its link this page does not read `batchsize`, `tokens`."]
    assert shown_command(at)[shown_command(at).index("--dp") + 1] == "2"
    sound(at.selectbox(key="model").set_value("llama-3-8b").run())
    assert unread(at) == []


@pytest.mark.parametrize(
    ("page", "known"), [("memory", {"dp": "2"}), ("serve", {"fast": "20"}), ("formula", {"part": "norm"})]
)
def test_of_a_link_that_a_page_reads_nothing_is_said(page: str, known: dict[str, str]) -> None:
    assert unread(opened(page, model="gpt2", **known)) == []


def unread(at: AppTest) -> list[str]:
    return [each.value for each in at.caption if "does not read" in each.value]


@pytest.mark.parametrize(("page", "label"), [("memory", "Sequence length"), ("roofline", "Sequence (tokens)")])
def test_a_slider_holds_whatever_number_a_link_has(page: str, label: str) -> None:
    at = opened(page, model="llama-3-8b", seq="3000", batch="3")
    assert {each.key: each.value for each in at.select_slider}["seq"] == 3000
    assert "3000" in shown_command(at)
    assert shown_command(at)[shown_command(at).index("--batch") + 1] == "3"
    sound(at.select_slider(key="batch").set_value(4).run())
    assert {each.label: each.value for each in at.select_slider}[label] == 3000


def test_a_slider_takes_no_number_that_a_page_cannot_show() -> None:
    assert (
        "seq: expected a choice of this page, found 99999999"
        in errors(opened("memory", model="gpt2", seq="99999999"))[0]
    )


def test_the_table_of_advice_is_saved_with_every_digit() -> None:
    (table,) = [each.value for each in opened("memory", model="llama-3-8b").dataframe if "saves" in each.value]
    assert {table[name].dtype.kind for name in ("saves", "peak")} == {"i"}


@pytest.mark.parametrize(
    ("page", "address"),
    [
        ("memory", {"dp": "3"}),
        ("memory", {"recipe": "bf17"}),
        ("attention", {"seq": "-5"}),
        ("roofline", {"execution": "<script>"}),
        ("serve", {"served": "fp3"}),
        ("home", {"gpu": "h100"}),
    ],
)
def test_every_knob_refuses_what_it_does_not_have(page: str, address: dict[str, str]) -> None:
    at = opened(page, model="llama-3-8b", **address)
    ((knob, value),) = address.items()
    (shown,) = errors(at)
    assert shown.startswith(f"This link cannot be shown: `{knob}: expected a choice of this page")
    assert value in shown
    assert not at.metric
