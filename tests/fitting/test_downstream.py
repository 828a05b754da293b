"""From sizes to a task's loss, and from that to its accuracy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import calc
from calc.cli import cli
from calc.errors import Refused
from calc.fitting.downstream import accuracy, fit_task, refitted
from tests.fitting.coverage import TRUTH
from tests.fitting.surfaces import grid, losses

SIGMOID = np.array([0.85, 0.25, 4.0, 2.6])


def ladder(noise: float = 0.0, seed: int = 0) -> tuple[calc.Runs, np.ndarray]:
    """36 models, the loss of a task of four choices, and how much of it each solves."""
    random = np.random.default_rng(seed)
    params, tokens = grid()
    loss = losses(TRUTH, params, tokens) * np.exp(random.normal(0, noise, 36))
    solved = accuracy(SIGMOID, loss) + random.normal(0, noise, 36)
    return calc.Runs(params, tokens, loss), np.clip(solved, 0, 1)


def test_both_steps_come_back() -> None:
    runs, solved = ladder()
    found = fit_task(runs, solved, floor=0.25, refits=0)
    assert found.constants == pytest.approx({"top": 0.85, "floor": 0.25, "slope": 4.0, "middle": 2.6}, rel=1e-4)
    assert found.error == pytest.approx(0, abs=1e-6)
    assert found.chained == pytest.approx(0, abs=1e-5)
    far = losses(TRUTH, np.array(1e11), np.array(2e12))
    assert found.predict(1e11, 2e12) == pytest.approx(float(accuracy(SIGMOID, far)), rel=1e-4)


def test_a_larger_model_is_predicted_within_its_interval() -> None:
    held = []
    truth = float(accuracy(SIGMOID, losses(TRUTH, np.array(2e10), np.array(1e12))))
    for seed in range(20):
        runs, solved = ladder(0.005, seed)
        found = fit_task(runs, solved, floor=0.25, refits=0)
        many = refitted(runs, solved, 0.25, 200, seed)
        band = found.interval(2e10, 1e12, many)
        assert band is not None
        held.append(band.low - 0.005 <= truth <= band.high + 0.005)
        assert found.chained < 0.02
    assert np.mean(held) >= 0.9


def test_what_is_no_accuracy_is_refused() -> None:
    runs, solved = ladder()
    with pytest.raises(Refused, match="accuracy: expected a share from 0 to 1"):
        fit_task(runs, 100 * solved)
    with pytest.raises(Refused, match="accuracy: expected runs that differ"):
        fit_task(runs, np.full(36, 0.3))
    with pytest.raises(Refused, match="floor"):
        fit_task(runs, solved, floor=1.0)


def test_on_the_command_line(tmp_path: Path) -> None:
    runs, solved = ladder(0.003)
    path = tmp_path / "runs.csv"
    rows = zip(runs.params, runs.tokens, runs.loss, solved, ["a", "b"] * 18, strict=True)
    path.write_text("N,D,loss,acc,set\n" + "\n".join(",".join(map(str, row)) for row in rows))
    words = ["fit", str(path), "--accuracy", "acc", "--chance", "0.25", "--compute", "1e23", "--refits", "100"]
    record = json.loads(CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False).stdout)
    assert record["interval"]["low"] < record["accuracy"] < record["interval"]["high"]
    assert record["accuracy"] > solved.max() - 0.05
    assert "accuracy at 1e+23 FLOP" in CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    half = json.loads(CliRunner().invoke(cli, [*words, "--where", "set=b", "--json"], catch_exceptions=False).stdout)
    assert half["constants"]["middle"] == pytest.approx(2.6, rel=0.05)
