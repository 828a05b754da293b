"""`gpus`: the list, one device, formats, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable

import pytest

from calc.cli import main
from calc.spec.catalogue import device_names, load_device
from tests.test_imports import loaded_by

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["envelope", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def test_the_list_has_a_line_a_device(run: Run) -> None:
    status, out, err = run("gpus")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 2 + len(device_names()) + 1
    assert max(map(len, lines)) <= 120
    line = next(line for line in lines if line.startswith("h100-sxm "))
    for text in ("80.0 GiB", "79.6 GiB", "3.35 TB/s", "989 TFLOP/s", "1.98 PFLOP/s", "900 GB/s", "700"):
        assert text in line
    assert "*" not in line
    assert "rtx-4090 *" in out


def test_the_list_as_json_and_csv(run: Run) -> None:
    records = [json.loads(line) for line in run("gpus", "--json")[1].splitlines()]
    assert [record["gpu"] for record in records] == device_names()
    h200 = next(record for record in records if record["gpu"] == "h200")
    assert h200["peaks"]["bf16"] == 989_400_000_000_000
    assert h200["usable"] == 143_771 * 2**20
    assert h200["link_one_way"] == 450 * 10**9
    rows = list(csv.DictReader(io.StringIO(run("gpus", "--format", "csv")[1])))
    assert [row["gpu"] for row in rows] == device_names()
    assert {row["gpu"]: row["power"] for row in rows}["gb200"] == "1200"


@pytest.mark.parametrize("name", ["h100-sxm", "tpu-v4", "rtx-5090"])
def test_a_device_shows_every_figure_with_its_source(run: Run, name: str) -> None:
    status, out, _ = run("gpus", name)
    assert status == 0
    device = load_device(name)
    for fact_name, fact in device.facts():
        assert fact_name in out
        assert fact.source.url in out
        assert fact.source.read.isoformat() in out
    assert ("unconfirmed" in out) == bool(device.unconfirmed)
    record = json.loads(run("gpus", name, "--json")[1])
    assert set(record["facts"]) == {fact_name for fact_name, _ in device.facts()}
    assert record["unconfirmed"] == [key for key, fact in record["facts"].items() if not fact["confirmed"]]
    for fact in record["facts"].values():
        assert fact["url"].startswith("https://")


@pytest.mark.parametrize(
    ("name", "message"), [("h100", "h100-nvl, h100-pcie, h100-sxm"), ("h100-smx", "did you mean h100-sxm")]
)
def test_refusals_take_one_line(run: Run, name: str, message: str) -> None:
    status, out, err = run("gpus", name)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: GPU: expected ")
    assert message in err


def test_other_commands_do_not_load_the_catalogue() -> None:
    loaded = loaded_by("import calc.cli; calc.cli.cli.main(['params', 'gpt2', '--json'], standalone_mode=False)")
    assert not {name for name in loaded if "hardware" in name}
