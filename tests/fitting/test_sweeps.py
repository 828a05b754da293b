"""Designs of experiments: they cost the budget, and keep what they promise."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import calc
from calc.cli import cli
from calc.cli.experiments_launch import Launches
from calc.errors import Refused
from calc.fitting import sweeps
from calc.laws import Parametric, find
from calc.optimum.launch import existing, practice_command, runs
from harness.__main__ import cli as harness

LAW = find("besiroglu")
FORM = LAW.parametric(LAW.k) if LAW.parametric else None
assert isinstance(FORM, Parametric)
BUDGET, TARGET = 1e21, 1e23
DESIGNS = sweeps.designs(FORM, BUDGET)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_a_design_costs_its_budget(design: sweeps.Design) -> None:
    assert design.flop == pytest.approx(BUDGET, rel=1e-5)
    assert len({design.params.size, design.tokens.size, design.curve.size}) == 1
    assert design.six_nd.max() < BUDGET


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_what_is_promised_is_kept(design: sweeps.Design) -> None:
    """Other tables, twice as many, fitted anew: the median width of their intervals is that of the promise."""
    assert isinstance(FORM, Parametric)
    promise = sweeps.promise(design, FORM, TARGET)
    again = [sweeps.promise(design, FORM, TARGET, seed=seed) for seed in (11, 12)]
    assert promise.loss == pytest.approx(np.mean([each.loss for each in again]), rel=0.2)
    assert promise.params == pytest.approx(np.mean([each.params for each in again]), rel=0.2)
    assert promise.found == 1
    assert min(promise.held, *(each.held for each in again)) >= 0.85


@pytest.mark.slow
def test_more_budget_and_less_noise_narrow_the_interval() -> None:
    assert isinstance(FORM, Parametric)
    little, much = (sweeps.designs(FORM, budget)[0] for budget in (1e19, 1e21))
    assert sweeps.promise(much, FORM, TARGET).loss < 0.7 * sweeps.promise(little, FORM, TARGET).loss
    assert sweeps.promise(much, FORM, TARGET, noise=0.001).loss < 0.5 * sweeps.promise(much, FORM, TARGET).loss
    with pytest.raises(Refused, match="enough FLOP for models of 100,000 parameters"):
        sweeps.designs(FORM, 1e12)


def test_sizes_exist_and_cost_stays() -> None:
    family = calc.load_model("gpt2")
    design, models = existing(DESIGNS[0], LAW, family)
    assert 20 <= design.params.size <= DESIGNS[0].params.size
    assert set(design.params.tolist()) <= set(models)
    for row in runs(design, models, LAW, 2048):
        spec = models[float(row["params"])].spec
        assert calc.estimate(spec, "params").value == row["params"]
        assert row["tokens"] == row["steps"] * row["batch_tokens"]
        assert row["batch_tokens"] % 2048 == 0
    kept = np.isin(DESIGNS[0].curve, design.curve)
    assert design.six_nd == pytest.approx(DESIGNS[0].six_nd[kept])


@pytest.mark.slow
def test_every_training_has_a_launch_file_and_the_hours_it_takes(tmp_path: Path) -> None:
    """As `plan --as` writes it for the same model and batch; the longest of the points of one training is launched."""
    design, models = existing(DESIGNS[0], LAW, calc.load_model("gpt2"))
    rows = runs(design, models, LAW, 1024, gpus=8)
    assert all(row["batch_tokens"] % (8 * 1024) == 0 for row in rows)
    twice = [{**rows[0], "steps": 1}, rows[0] | {"run": rows[0]["run"]}, rows[1]]
    launches = Launches(str(tmp_path / "launch"), "dgx-h100", 8, "torchtitan", 1024)
    (note,) = launches.write(twice, models)
    assert "2 launch files of torchtitan" in note
    text = (tmp_path / "launch" / f"{rows[0]['run']}.torchtitan").read_text()
    assert f"--training.global-batch-size {rows[0]['batch_tokens'] // 1024}" in text
    assert "--training.seq-len 1024" in text
    assert twice[1]["hours"] == pytest.approx(twice[0]["hours"] * twice[1]["steps"], rel=1e-2)
    for wrong, said in (
        ((None, 8, "torchtitan"), "--cluster: expected a value beside --launch"),
        (("dgx-h100", 8, "torchtitam"), "--as: expected one of"),
    ):
        with pytest.raises(Refused, match=said):
            Launches(str(tmp_path / "other"), *wrong, 1024)
    with pytest.raises(Refused, match="--launch: expected a folder that is not there yet"):
        Launches(str(tmp_path / "launch"), "dgx-h100", 8, "torchtitan", 1024)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_the_harness_takes_the_line_to_practise_with(design: sweeps.Design) -> None:
    words = practice_command(design).split()
    assert words[:6] == ["python", "-m", "harness", "run", "--suite", "scaling"]
    done = CliRunner().invoke(harness, [*words[3:], "--list", "--json"], catch_exceptions=False)
    listed = {row["run"]: row["params_total"] for row in map(json.loads, done.stdout.splitlines())}
    assert 4 <= len(listed) <= 9
    assert min(listed.values()) < 1e4
    assert 5e5 < max(listed.values()) < 1e6


@pytest.mark.slow
def test_the_runs_are_written_as_fit_reads_them(tmp_path: Path) -> None:
    out = tmp_path / "runs.csv"
    words = ["experiments", "--budget", "1e20", "--target", "1e22", "--out", str(out), "--json"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0
    records = [json.loads(line) for line in done.stdout.splitlines()]
    compared = [record for record in records if "loss_width" in record]
    assert {record["design"] for record in compared} == {"isoflop", "ladder", "random", "envelope"}
    little, much = (record for record in compared if record.get("scaled"))
    best = compared[0]
    assert little["flop"] < best["flop"] < much["flop"]
    assert little["loss_width"] > best["loss_width"] > much["loss_width"]
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == [record["run"] for record in records if "run" in record]
    for row in rows:
        row["loss"] = str(1.8 + 480 / float(row["params"]) ** 0.348 + 2090 / float(row["tokens"]) ** 0.366)
    fit = calc.fit(
        {name: np.array([float(row[name]) for row in rows]) for name in ("params", "tokens", "loss")}, refits=0
    )
    assert fit.constants["alpha"] == pytest.approx(0.348, rel=1e-3)
    for more, said in (
        (["--out", str(out)], "--out: expected a file that is not there yet"),
        (["--law", "porian"], "--law: expected a law of the form E"),
        (["--target", "1e19"], "--target: expected more FLOP than --budget"),
        (["--noise", "5"], "--noise: expected less than 1"),
        (["--family", "mixtral-8x7b"], "--family: expected a model whose layers are alike and hold no experts"),
        (["--gpus", "8"], "--launch: expected a folder beside --cluster, --gpus and --as"),
        (["--launch", str(tmp_path / "x"), "--gpus", "8"], "--cluster: expected a value beside --launch"),
    ):
        with pytest.raises(Refused, match=said):
            CliRunner().invoke(cli, [*words[:5], *more], catch_exceptions=False, standalone_mode=False)
