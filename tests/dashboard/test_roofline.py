"""The page Roofline says what `predict` says on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calc.units import duration, si
from tests.dashboard.opening import cli, errors, metrics, opened, shown_command, sound

ASKED = (
    {"model": "llama-3-70b"},
    {"model": "gpt2", "phase": "decode", "batch": "16", "context": "512", "execution": "graph"},
    {"model": "llama-3-8b", "phase": "training", "seq": "4096", "checkpointing": "full", "tp": "8"},
    {"model": "llama-3-70b", "phase": "training", "tp": "8", "dp": "32", "zero": "1", "network": "25GB"},
    {"model": "bert-base", "phase": "training", "gpu": "a100-sxm-80gb", "recipe": "fp32"},
    {"model": "gpt-oss-20b", "phase": "decode", "weights_in": "int4:g128"},
    {"model": "transformer-base", "phase": "forward", "execution": "eager"},
)


def ops(at: Any) -> Any:
    return at.dataframe[0].value


@pytest.mark.parametrize("address", ASKED, ids=lambda address: address["model"])
def test_figures_and_ops_are_the_command_lines(address: dict[str, str]) -> None:
    at = opened("roofline", **address)
    words = shown_command(at)
    [said] = cli(*words)
    between = said["interval"]
    shown = metrics(at)
    assert said["seconds"] in (float(each.help.split()[0]) for each in at.metric if each.label.startswith("Time of a"))
    assert next(value for label, value in shown.items() if label.startswith("Time of a")) == duration(said["seconds"])
    assert shown["Tokens per second"] == si(said["tokens_per_second"])
    assert shown["MFU"] == ("–" if said["mfu"] is None else f"{said['mfu']:.1%}")
    assert shown["Bound by"] == said["bound"]
    notes = [each.delta for each in at.metric]
    assert f"{said['by_bound'][said['bound']] / said['seconds']:.0%} of the time" in notes
    assert f"{duration(between['low'])} to {duration(between['high'])}" in notes
    assert f"{si(said['tokens'] / between['high'])} to {si(said['tokens'] / between['low'])}" in notes
    table = ops(at)
    assert table["op"].tolist() == [op["path"] for op in said["ops"]]
    assert table["time (ms)"].tolist() == pytest.approx([op["seconds"] * 1e3 for op in said["ops"]])
    buses = [(op["bus_bytes_per_second"] or 0) / 1e9 for op in said["ops"]]
    assert table["bus GB/s"].fillna(0).tolist() == pytest.approx(buses)
    fallen = at.dataframe[1].value
    assert fallen["loss"].tolist() == [bar["what"] for bar in said["waterfall"]]
    assert sum(fallen["time (ms)"].tolist()) == pytest.approx(said["seconds"] * 1e3)
    assert table["TFLOP/s"].tolist() == pytest.approx([op["flops_per_second"] / 1e12 for op in said["ops"]])


def test_sliders_change_the_numbers() -> None:
    at = opened("roofline", model="gpt2", phase="decode")
    one = metrics(at)["Tokens per second"]
    sound(at.select_slider(key="batch").set_value(64).run())
    assert metrics(at)["Tokens per second"] != one
    assert metrics(at)["Tokens per second"] == si(cli(*shown_command(at))[0]["tokens_per_second"])


def test_a_shorter_model_gets_a_length_that_it_takes() -> None:
    at = opened("roofline", model="llama-3-8b", seq="8192")
    sound(at.selectbox(key="model").set_value("gpt2").run())
    assert not errors(at)
    assert at.select_slider(key="seq").value == 1024


def test_encoders_are_not_asked_for_tokens() -> None:
    assert "phase: expected" in errors(opened("roofline", model="bert-base", phase="decode"))[0]
    at = sound(opened("roofline", model="gpt2", phase="decode").selectbox(key="model").set_value("bert-base").run())
    assert not errors(at)
    assert "Time of a pass" in metrics(at)


def test_what_cannot_be_predicted_is_one_message() -> None:
    at = opened("roofline", model="gpt2", gpu="p100-pcie", phase="training", recipe="bf16-mixed")
    [message] = errors(at)
    assert message.startswith("No prediction: `")
    assert "bf16" in message


def test_profiles_of_the_results_are_devices_and_no_other_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calc.time.device.profile import PROFILES

    monkeypatch.setenv("ENVELOPE_RESULTS", str(tmp_path))
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.json").write_bytes((PROFILES / "h100-sxm.json").read_bytes())
    (tmp_path / "secret.json").write_text("{}")
    at = opened("roofline", model="gpt2", gpu="measured: mine")
    assert shown_command(at)[:4] == ["predict", "gpt2", "--profile", str(tmp_path / "profiles" / "mine.json")]
    assert metrics(at)["Tokens per second"] == si(cli(*shown_command(at))[0]["tokens_per_second"])
    assert errors(opened("roofline", model="gpt2", gpu="measured: ../secret")) == [
        "This link cannot be shown: `gpu: expected a choice of this page, found measured: ../secret`"
    ]


def test_what_is_no_profile_is_one_message_or_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVELOPE_RESULTS", str(tmp_path))
    folder = tmp_path / "profiles"
    (folder / "folder.json").mkdir(parents=True)
    (folder / "gone.json").symlink_to(tmp_path / "nowhere")
    for name, text in {"broken": "{", "deep": "[" * 100_000, "nan": '{"device": NaN}', "<b>x": "{}"}.items():
        (folder / f"{name}.json").write_text(text)
        (message,) = errors(opened("roofline", model="gpt2", gpu=f"measured: {name}"))
        assert message.startswith("No prediction: `")
        assert message.endswith("`")
    for name in ("folder", "gone"):
        (message,) = errors(opened("roofline", model="gpt2", gpu=f"measured: {name}"))
        assert message.startswith("This link cannot be shown: `gpu: expected a choice")


def test_shapes_of_the_points_are_told_where_there_are_several() -> None:
    at = opened("roofline", model="gpt2", phase="training", checkpointing="full")
    assert "Shapes of the points: ● forward, ◆ recomputed, ■ backward, ▲ update." in [each.value for each in at.caption]
    at = opened("roofline", model="gpt2", phase="decode")
    assert not any(each.value.startswith("Shapes") for each in at.caption)


def test_what_cannot_fit_is_a_warning() -> None:
    [warned] = opened("roofline", model="llama-3-70b", phase="decode").warning
    assert "does not fit: 132 GiB at the peak, of 79.6 GiB" in warned.value
    assert not opened("roofline", model="gpt2", phase="decode").warning
