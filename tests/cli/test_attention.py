"""`attention`: both kinds side by side, presets, devices, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from calc.attention import AttentionShape, Blocks, flash, standard
from calc.cli import main
from calc.spec.catalogue import load_device
from tests.test_imports import HEAVY, loaded_by

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["envelope", "attention", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def records(run: Run, *arguments: str) -> list[dict]:
    status, out, err = run(*arguments, "--json")
    assert (status, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_both_kinds_with_a_device(run: Run) -> None:
    sizes = ("--seq", "4096", "--heads", "8", "--kv-heads", "2", "--d-head", "128", "--causal", "--backward")
    plain, tiled = records(run, *sizes, "--gpu", "h100-sxm", "--blocks", "64x32")
    shape = AttentionShape(heads=8, kv_heads=2, seq=4096, d_head=128, causal=True, direction="backward")
    for record, cost in ((plain, standard(shape)), (tiled, flash(shape, Blocks(64, 32)))):
        assert record["flops"] == cost.flops
        assert record["read"] + record["written"] == record["traffic"] == cost.traffic
        assert record["peak"] == cost.peak
        gpu = load_device("h100-sxm")
        times = {"compute": cost.flops / gpu.peak("bf16"), "memory": cost.traffic / gpu.bandwidth.value}
        assert record["seconds_at_least"] == max(times.values()) == times[record["bound"]]
    assert tiled["wins_from"]["memory"] < 100


def test_tiles_are_chosen_to_fit(run: Run) -> None:
    for gpu, capacity in (("h100-sxm", 227 * 1024), ("a100-sxm-80gb", 163 * 1024)):
        _, tiled = records(run, "--gpu", gpu)
        assert tiled["sram"] <= capacity
    assert records(run, "--sram", "64KiB")[1]["sram"] <= 65536


def test_the_table_says_what_the_records_say(run: Run) -> None:
    status, out, err = run("--seq", "1024", "--heads", "16", "--d-head", "64", "--batch", "64", "--backward")
    assert (status, err) == (0, "")
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "825 GFLOP" in lines["FLOPs as executed"]
    assert "962 GFLOP" in lines["FLOPs as executed"]
    assert "bound" not in lines
    assert "n**2*d**2/m" in out


def test_the_lectures_table(run: Run) -> None:
    found = records(run, "--preset", "flashattention-table")
    assert {row["verdict"] for row in found if row["unit"] == "B" and row["printed"]} == {"confirmed"}
    status, out, _ = run("--preset", "flashattention-table")
    assert status == 0
    for text in ("66.6 GFLOP", "825 GFLOP", "unreproduced", "40.27 GB", "4.38 GB", "41.7 ms", "7.3 ms"):
        assert text in out


def test_grouping_of_heads(run: Run) -> None:
    found = {row["grouping"]: row for row in records(run, "--preset", "kv-grouping", "--gpu", "h100-sxm")}
    assert [row["cached_bytes_per_token"] for row in found.values()] == [16384, 4096, 512, 1152, 1152]
    assert found["MHA"]["bound"] == "memory"
    assert "MLA, absorbed" in run("--preset", "kv-grouping")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kv-heads", "3"), "kv_heads: expected a number that divides the 32 heads, found 3"),
        (("--sram", "64"), "--sram: expected a number of bytes with its unit"),
        (("--sram", "1KiB"), "sram: expected at least"),
        (("--blocks", "64"), "--blocks: expected rows and columns of a tile, such as 128x64, found 64"),
        (("--blocks", "0x64"), "--blocks: expected rows and columns"),
        (("--gpu", "h100"), "GPU: expected one of"),
        (("--seq", "8k"), '"8Ki" is 8192'),
        (("--gpu", "l40s", "--dtype", "fp64"), "dtype: expected one that l40s has a published peak for"),
        (("--preset", "flashattention-table", "--seq", "5"), "--seq: expected nothing beside --preset"),
        (("--preset", "kv-grouping", "--causal"), "--causal: expected nothing beside --preset"),
    ],
)
def test_refusals_are_one_line(run: Run, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_no_heavy_import() -> None:
    loaded = loaded_by("import calc.cli; calc.cli.cli.main(['attention', '--json'], standalone_mode=False)")
    assert not set(HEAVY) & set(loaded)
