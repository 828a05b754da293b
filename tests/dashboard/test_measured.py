"""The page Measured vs predicted says what `python -m harness compare` and `diff` say."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from calc.errors import Refused
from dashboard import running
from harness.record import Run
from harness.running import jobs
from harness.store import append
from tests.dashboard.opening import errors, metrics, opened, sound
from tests.harness.made import environment, forecast, measurement, run
from tests.reference import ROOT
from tests.waiting import PATIENCE

OLD, NEW = environment(commit="aaaa11112222"), environment(commit="bbbb11112222")
GPU = environment("gpu-two", device="cuda", commit="bbbb11112222")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVELOPE_RESULTS", str(tmp_path))
    return tmp_path


def some() -> list[Run]:
    taken = measurement(0.010, by_component={"mlp": 0.006, "attention": 0.003})
    was = forecast(0.012, by_component={"mlp": 0.008, "attention": 0.004})
    return [
        run("matmul/m=1", 1e-3, 1.05e-3, environment=OLD),
        run("matmul/m=1", 1e-3, 1.30e-3, environment=NEW, started="2026-11-22T17:00:00Z"),
        run("matmul/m=2", 1e-3, 0.5e-3, environment=NEW),
        run("attention/x", 2e-5, 2.2e-5, environment=GPU, params={"backend": "sdpa_flash"}),
        run(
            "training/model=tiny",
            environment=NEW,
            params={"model": "tiny"},
            forecast=was,
            measurement=taken,
        ),
        run("matmul/m=3", 1e-3, 1e-3, status="unstable", environment=NEW),
    ]


def harness(*words: str) -> list[dict[str, Any]]:
    """What `python -m harness WORDS --json` prints, one record a line."""
    command = [sys.executable, "-m", "harness", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def commands(at: Any) -> list[list[str]]:
    return [shlex.split(line)[3:] for block in at.code for line in block.value.splitlines()]


def tables(at: Any) -> list[Any]:
    return [each.value for each in at.dataframe]


ADDRESSES = (
    {},
    {"of_device": "cpu-one"},
    {"of_model": "tiny"},
    {"of_backend": "sdpa_flash"},
    {"every": "true"},
    {"unstable": "true"},
)


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: "-".join(address) or "all")
def test_groups_are_the_command_lines(results: Path, address: dict[str, str]) -> None:
    for each in some():
        append(each, results)
    at = opened("measured", **address)
    said = harness(*commands(at)[0])
    table = tables(at)[0]
    assert table["group"].tolist() == [record["group"] for record in said]
    assert table["measured / predicted"].tolist() == pytest.approx([record["ratio"] for record in said])
    for column, name in (("half within ×", "half_within"), ("nine in ten within ×", "nine_in_ten_within")):
        assert table[column].tolist() == pytest.approx([record[name] for record in said])
    assert table["cases"].tolist() == [record["n"] for record in said]
    alls = [record for record in said if record["group"] == "all"]
    assert metrics(at)["Cases"] == f"{sum(record['n'] for record in alls)}"
    if len(alls) == 1:
        assert metrics(at)["Nine in ten within"] == f"× {alls[0]['nine_in_ten_within']:.3g}"
        assert metrics(at)["Ratio"] == f"{alls[0]['ratio']:.3f}"


def test_the_scatter_has_each_case_and_the_line(results: Path) -> None:
    for each in some():
        append(each, results)
    at = opened("measured")
    spec = json.loads(at.get("vega_lite_chart")[0].proto.spec)
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["area", "line", "point"]
    assert spec["layer"][2]["encoding"]["x"]["scale"]["type"] == "log"
    kinds = spec["layer"][2]["encoding"]["color"]["scale"]["domain"]
    assert kinds == ["attention", "matmul", "training"]


def test_the_whole_model_comes_first_in_a_sentence_and_the_errors_are_drawn_once_each(results: Path) -> None:
    for each in some():
        append(each, results)
    at = opened("measured")
    (said,) = [each.value for each in at.success]
    assert said.startswith("`training/model=tiny` on `cpu-one`: predicted 12.0 ms, measured 10.0 ms, **0.83 ×**")
    [table] = [each for each in tables(at) if "bound" in each]
    assert table["case"].tolist()[0] == "training/model=tiny"
    spec = json.loads(at.get("vega_lite_chart")[1].proto.spec)
    rows = spec["layer"][0]["data"]["values"]
    assert sum(int(row["cases"]) for row in rows) == len(table)
    assert spec["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"


def test_noise_of_a_change_is_drawn_with_it(results: Path) -> None:
    for each in some():
        append(each, results)
    at = opened("measured", of_device="cpu-one")
    specs = [json.loads(each.proto.spec) for each in at.get("vega_lite_chart")]
    (noise,) = [
        layer for spec in specs for layer in spec["layer"] if layer["encoding"].get("x2", {}).get("field") == "high"
    ]
    (row,) = noise["data"]["values"]
    assert row["low"] < row["ratio"] < row["high"]


def test_components_show_both_times(results: Path) -> None:
    for each in some():
        append(each, results)
    at = opened("measured")
    [table] = [each for each in tables(at) if "component" in each]
    assert table.set_index("component").loc["mlp", ["predicted (s)", "measured (s)"]].tolist() == [0.008, 0.006]


def test_the_devices_of_a_fleet_are_listed(results: Path) -> None:
    """Whose results stand in the folder, one writer's or several machines' on shared storage."""
    for each in some():
        append(each, results)
    at = opened("measured")
    [table] = [each for each in tables(at) if "suites" in each]
    assert dict(zip(table["device"], table["ok"], strict=True)) == {"cpu-one": 4, "gpu-two": 1}
    assert table["runs"].tolist() == [5, 1]
    assert not [each for each in tables(opened("measured", of_device="cpu-one")) if "suites" in each]


def test_regressions_are_those_of_diff(results: Path) -> None:
    for each in some():
        append(each, results)
    at = opened("measured", of_device="cpu-one")
    [said] = harness(*[word for word in commands(at)[1] if word != "--all"])
    [table] = [each for each in tables(at) if "at least" in each]
    assert table[""].tolist() == [said["verdict"]] == ["SLOWER"]
    assert table["ratio"].tolist() == pytest.approx([said["ratio"]])
    assert metrics(at)["Slower"] == "1"


def test_the_latest_commits_with_a_case_in_common_are_compared_first(results: Path) -> None:
    for each in some():
        append(each, results)
    lone = environment(commit="cccc11112222")
    append(run("pass/alone", 1e-3, 1e-3, environment=lone, started="2026-11-23T17:00:00Z"), results)
    at = opened("measured", of_device="cpu-one")
    assert not errors(at)
    assert [at.selectbox(key=key).value for key in ("before", "after")] == ["aaaa11112222", "bbbb11112222"]
    sound(at.selectbox(key="after").set_value("cccc11112222").run())
    (message,) = errors(at)
    assert "runs of the same case on both sides" in message


def test_commits_without_a_case_in_common_are_told_what_to_do(results: Path) -> None:
    append(run("matmul/m=1", 1e-3, 1e-3, environment=OLD), results)
    append(run("matmul/m=2", 1e-3, 1e-3, environment=NEW), results)
    at = opened("measured")
    assert not errors(at)
    assert any(each.value.startswith("No case was measured at two commits") for each in at.info)


def test_nothing_yet_says_what_to_do(results: Path) -> None:
    at = opened("measured")
    [words] = [each.value for each in at.info]
    assert "press Run" in words
    assert f"python -m harness run --results {shlex.quote(str(results))}" in words


def test_without_forecasts_it_says_how_to_get_them(results: Path) -> None:
    append(run("matmul/m=1", None, 1.0), results)
    at = opened("measured")
    assert any("Profile first" in each.value for each in at.info)


def test_where_all_is_unstable_it_says_so_and_shows_it_when_asked(results: Path) -> None:
    append(run("matmul/m=1", 1.0, 1.2, status="unstable"), results)
    append(run("matmul/m=2", 1.0, 1e-9, status="unstable", reason="impossible: 1e30 FLOP/s"), results)
    at = opened("measured")
    assert any("Unstable times too" in each.value for each in at.info)
    sound(at.toggle(key="unstable").set_value(True).run())
    assert metrics(at)["Cases"] == "1"


def test_what_results_hold_is_shown_and_never_obeyed(results: Path) -> None:
    hostile = "<script>alert(1)</script> [x](https://example.org) :red[y] $z$"
    append(run(f"matmul/{hostile}", 1.0, 1.1, kind=hostile, suite=hostile, params={"model": hostile}), results)
    path = next((results / "runs").glob("*/*.jsonl"))
    path.write_text(path.read_text() + '{"torn": \n[![x](https://example.org/x.png)]\n')
    at = opened("measured")
    assert not errors(at)
    assert tables(at)[0]["group"].tolist()[0] == hostile
    assert any(each.value.startswith("Passed over: `") for each in at.caption)


def test_a_folder_of_anything_shows_what_can_be_read(results: Path) -> None:
    append(run("matmul/m=1", 1e-3, 1.05e-3), results)
    folder = next((results / "runs").glob("*"))
    (folder / "text.jsonl").write_text("\n".join(["[" * 100_000, "null", "NaN", '{"run": 1e999}', "x" * 2_000_000]))
    (folder / "bytes.jsonl").write_bytes(b"\xff\xfe\x00\n")
    (folder / "folder.jsonl").mkdir()
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    at = opened("measured")
    assert not errors(at)
    assert metrics(at)["Cases"] == "1"
    passed_over = [each.value for each in at.caption if each.value.startswith("Passed over")]
    assert passed_over[-1].endswith("more lines.")
    assert all(len(each) < 500 for each in passed_over)


def test_new_rows_arrive_without_a_restart(results: Path) -> None:
    runs = some()
    append(runs[0], results)
    at = opened("measured")
    assert metrics(at)["Cases"] == "1"
    append(runs[2], results)
    sound(at.run())
    assert metrics(at)["Cases"] == "2"


def ended(job: str, results: Path) -> None:
    """Wait until a run is over."""
    end = time.monotonic() + PATIENCE
    while jobs.status(job, results).active and time.monotonic() < end:
        time.sleep(0.1)


@pytest.mark.slow
def test_one_run_at_a_time_and_cancel(results: Path) -> None:
    # Far longer than it takes to come back and press Cancel.
    running.start("quick", "", False, True)
    try:
        with pytest.raises(Refused, match="one at a time"):
            running.start("quick", "", False, False)
        at = opened("measured")
        assert [each.label for each in at.button if each.key == "run_cancel"] == ["Cancel"]
        assert not [each for each in at.button if each.key == "run_start"]
        sound(at.button(key="run_cancel").click().run())
    finally:
        [job] = jobs.jobs(results)
        jobs.cancel(job.id, results)
        ended(job.id, results)
    assert jobs.status(job.id, results).state == "cancelled"
    at, end = opened("measured"), time.monotonic() + PATIENCE
    while not [each for each in at.button if each.key == "run_start"] and time.monotonic() < end:
        time.sleep(running.BUSY)  # for as long the page may show what was known before
        sound(at.run())
    assert [each for each in at.button if each.key == "run_start"]
