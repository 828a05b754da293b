"""The command `fit`: its keys, its refusals, its chart, and that it can be interrupted."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_commands import Run, run  # noqa: F401 (the fixture)
from tests.reference import ROOT

RUNS = str(ROOT / "docs" / "example-runs.csv")
KEYS = ["law", "constants", "objective", "intervals", "optimum", "warnings"]


def test_json_keys(run: Run) -> None:  # noqa: F811
    status, out, err = run("fit", RUNS, "--refits", "50", "--compute", "1e21", "--json")
    # On a busy machine what takes longer than two seconds says how far it is.
    said = re.sub(r"^.*: [\d,]+ of [\d,]+\n", "", err, flags=re.MULTILINE)
    assert (status, said) == (0, "")
    record = json.loads(out)
    assert list(record)[:6] == KEYS
    assert list(record["constants"]) == ["A", "B", "E", "alpha", "beta"]
    assert set(record["intervals"]) == {*record["constants"], *record["optimum"], "exponent"} - {"compute"}
    assert list(record["intervals"]["alpha"]) == ["level", "low", "high"]
    assert record["optimum"]["compute"] == 1e21
    assert record["columns"] == {"params": "params", "tokens": "tokens", "loss": "loss", "run": "run"}
    assert record["starts"] == {"tried": 27, "agreeing": 27}
    # What the example was made from lies in the intervals or close by: docs/scaling-laws-fits.md says how.
    for name, value in {"E": 1.75, "alpha": 0.34, "beta": 0.36}.items():
        assert record["constants"][name] == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize("law", ["isoflop", "kaplan", "gadre", "muennighoff"])
def test_every_law_has_the_same_keys(run: Run, law: str) -> None:  # noqa: F811
    status, out, _ = run("fit", RUNS, "--law", law, "--refits", "20", "--json")
    assert status == 0
    assert list(json.loads(out))[:6] == KEYS


def test_all_ranks_the_forms(run: Run) -> None:  # noqa: F811
    status, out, _ = run("fit", RUNS, "--law", "all", "--refits", "0", "--json")
    assert status == 0
    records = [json.loads(line) for line in out.splitlines()]
    *forms, both = records
    assert len(forms) == 4
    assert both["law"] == "average"
    assert set(both["forms"]) < {record["law"] for record in forms}
    errors = [record["held_out"]["rms"] for record in forms]
    assert errors == sorted(errors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "nowhere.csv: expected a file, found no such file"),
        ([RUNS, "--law", "nonsense"], "law: expected one of chinchilla"),
        ([RUNS, "--loss", "nothing"], "expected a column nothing, found columns run, params, tokens, loss"),
        ([RUNS, "--where", "run=none"], "expected rows that meet the conditions, found none"),
        ([RUNS, "--chart", "fit.pdf"], "--chart: expected a file ending in .png, .svg, .html, found fit.pdf"),
        ([RUNS, "--chart", "nowhere/fit.png"], "--chart: expected a file in a folder that is there"),
        ([RUNS, "--law", "isoflop", "--objective", "lad"], "--objective: expected a law with a form"),
        ([RUNS, "--law", "envelope"], "runs: expected training curves"),
        ([RUNS, "--law", "clark-hash"], "expected columns of loss and of params, experts"),
        ([RUNS, "--law", "muennighoff", "--chart", "fit.png"], "--chart: expected a law that is one of the forms"),
        ([RUNS, "--law", "muennighoff", "--compute", "1e21"], "--compute: expected a law that is one of the forms"),
        ([RUNS, "--compute", "0"], "--compute: expected a number of FLOP above 0"),
    ],
)
def test_refusals_are_one_line(run: Run, arguments: list[str], message: str) -> None:  # noqa: F811
    status, out, err = run("fit", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_charts_are_saved(run: Run, tmp_path: Path, suffix: str) -> None:  # noqa: F811
    pytest.importorskip("vl_convert")
    law = {"png": "chinchilla", "svg": "isoflop", "html": "kaplan"}[suffix]
    path = tmp_path / f"fit.{suffix}"
    status, _, _ = run("fit", RUNS, "--law", law, "--refits", "0", "--chart", str(path))
    assert status == 0
    content = path.read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!DOCTYPE html>"}[suffix]
    assert content.lstrip().startswith(start)
    assert b"cdn.jsdelivr" not in content  # it opens without a network


def test_without_the_extra_the_pip_command_is_named(
    run: Run,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    status, _, err = run("fit", RUNS, "--chart", str(tmp_path / "fit.png"))
    assert status == 2
    assert "pip install -e '.[charts]' in a clone" in err


def test_progress_after_two_seconds_and_interruption(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    sizes = np.stack([10 ** random.uniform(7, 10, 15_000), 10 ** random.uniform(9, 11, 15_000)], 1)
    loss = (1.8 + 400 / sizes[:, 0] ** 0.34 + 2000 / sizes[:, 1] ** 0.37) * np.exp(random.normal(0, 0.01, 15_000))
    path = tmp_path / "runs.csv"
    np.savetxt(path, np.column_stack([sizes, loss]), delimiter=",", header="N,D,L", comments="")
    command = [sys.executable, "-m", "calc", "fit", str(path), "--refits", "50000"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    assert first.startswith("refits: ")
    assert first.endswith("of 50,000\n")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "error: interrupted"


def test_in_the_background_of_a_script_ctrl_c_is_ignored_and_sigterm_ends(tmp_path: Path) -> None:
    """A shell starts such commands with SIGINT ignored, so that Ctrl-C in the foreground does not end them."""
    path = tmp_path / "runs.csv"
    sizes = np.geomspace(1e7, 1e10, 15_000)
    np.savetxt(path, np.column_stack([sizes, 20 * sizes**0.9, 2 + 100 / sizes**0.3]), delimiter=",", header="N,D,L")
    path.write_text(path.read_text().removeprefix("# "))
    command = [sys.executable, "-m", "calc", "fit", str(path), "--refits", "50000"]
    # What subprocess resets, a shell leaves as it is.
    background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    with subprocess.Popen(background, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("refits: ")
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith("refits: ")
        assert process.stderr.readline().startswith("refits: ")
        process.terminate()
    assert process.returncode == -signal.SIGTERM


def test_children_of_the_suite_hear_ctrl_c_wherever_it_was_started() -> None:
    ask = "import signal, sys; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    child = f"import subprocess, sys, tests.conftest; subprocess.run([sys.executable, '-c', {ask!r}], check=True)"
    background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", child]
    assert subprocess.run(background, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "True\n"
