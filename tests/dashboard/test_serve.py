"""The page Serve says what the command line says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from calc.units import duration, si
from tests.dashboard.opening import cli, errors, metrics, opened, shown_command


@pytest.mark.parametrize("address", [{}, {"served": "fp8", "input": "3000", "fast": "20", "price": "2"}])
def test_serve_finds_the_plan_that_the_command_line_finds(address: dict[str, str]) -> None:
    at = opened("serve", model="llama-3-8b", **address)
    (said,) = cli(*shown_command(at))
    best, shown = said["best"], metrics(at)
    assert shown["Users at once"] == f"{best['concurrency']:,.0f}"
    assert shown["Tokens/s of a GPU"] == si(best["tokens_per_gpu"])
    assert shown["First token after"] == duration(best["ttft"])


def test_formats_stand_beside_each_other_with_the_memory_and_the_best_marked() -> None:
    at = opened("serve", model="llama-3-8b", served=["bf16", "fp8"], on=["h100-sxm", "l40s"])
    (said,) = cli(*shown_command(at))
    assert metrics(at)["Tokens/s of a GPU"] == si(said["best"]["tokens_per_gpu"])
    spec = json.loads(at.get("vega_lite_chart")[0].proto.spec)
    lines, _, full, ring = spec["layer"]
    assert lines["encoding"]["color"]["scale"]["domain"] == [
        f"{gpu}, {form}" for gpu in ("h100-sxm", "l40s") for form in ("bf16", "fp8")
    ]
    assert ring["data"]["values"][0]["device"] == f"h100-sxm, {said['best']['dtype']}"
    assert full["data"]["values"]
    assert all("its memory holds" in row["plan"] for row in full["data"]["values"])


def test_the_simulated_requests_are_those_of_the_command_line() -> None:
    at = opened("serve", model="llama-3-8b", requests="true", fast="100", input="256", output="64")
    line = next(line for block in at.code for line in block.value.splitlines() if " serve " in line)
    (said,) = cli(*shlex.split(line)[3:])
    table = next(each.value for each in at.dataframe if "seconds of" in each.value.columns).set_index("seconds of")
    for row, name in (("first token", "ttft"), ("each further token", "tpot"), ("whole answer", "e2e")):
        for column, part in (("50% within", "p50"), ("99% within", "p99")):
            assert table.loc[row, column] == pytest.approx(said[name][part])


def test_a_measured_server_stands_beside_its_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spread = dict(zip(("mean", "p50", "p90", "p99"), (0.1, 0.1, 0.2, 0.4), strict=True))
    slow = {part: 2 * value for part, value in spread.items()}
    rows = {name: {"predicted": spread, "measured": slow} for name in ("ttft", "tpot", "e2e")}
    rows["throughput"] = {"predicted": 100.0, "measured": 50.0}
    path = tmp_path / "serving" / "here" / "2026-11-23.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"started": "2026-11-23", "compared": rows}) + '\n{"compared": 3}\n[torn\n')
    monkeypatch.setenv("ENVELOPE_RESULTS", str(tmp_path))
    at = opened("serve", model="llama-3-8b")
    table = next(each.value for each in at.dataframe if "ratio" in each.value.columns).set_index("figure")
    assert table.loc["ttft p99", "ratio"] == pytest.approx(2)
    assert table.loc["throughput", "ratio"] == pytest.approx(0.5)


def test_what_cannot_be_had_is_said_with_its_reason() -> None:
    at = opened("serve", model="llama-3-70b", fast="500")
    (slow,) = errors(at)
    (said,) = cli(*shown_command(at), status=1)
    nearest = said["nearest"]
    server = f"{nearest['gpus']} × {nearest['device']} ({nearest['layout']}, {nearest['dtype']})"
    assert slow.endswith(f"cannot be had: the fastest, {server}, gives a user {nearest['tokens_per_user']:,.0f}.")
    at = opened("serve", model="deepseek-v3", on="l40s")
    assert errors(at)[0].endswith("holds the model.")
    assert not at.get("vega_lite_chart")
