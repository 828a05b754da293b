"""How much compute a recipe saves: known multipliers come back, within intervals that hold them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import calc
from calc.cli import cli
from calc.errors import Refused
from calc.fitting.recipes import compare


def ladder(k: float, gamma: float, seed: int | None, sizes: int = 14, high: float = 3e9) -> calc.Runs:
    """Models of 20 tokens a parameter whose loss is 1.8 + k (C / 1e18)^-gamma, with 0.3 % of noise."""
    params = np.geomspace(3e7, high, sizes)
    loss = 1.8 + k * (120 * params**2 / 1e18) ** -gamma
    noise = 0 if seed is None else np.random.default_rng(seed).normal(0, 0.003, sizes)
    return calc.Runs(params, 20 * params, loss * np.exp(noise))


def test_a_constant_multiplier() -> None:
    """The second needs 1 / 1.5 of the compute: its K is smaller by 1.5^gamma."""
    found = compare(ladder(1.4, 0.16, None), ladder(1.4 / 1.5**0.16, 0.16, None), refits=10)
    assert found.multiplier == pytest.approx([1.5] * 4, rel=1e-4)
    assert found.growth == pytest.approx(0, abs=1e-5)
    assert found.constants["E"] == pytest.approx(1.8, rel=1e-5)


def test_a_multiplier_that_grows() -> None:
    first, second = ladder(1.4, 0.15, None), ladder(1.4, 0.17, None)
    found = compare(first, second, refits=10)
    for compute, multiplier in zip(found.compute, found.multiplier, strict=True):
        above = 1.4 * (compute / 1e18) ** -0.17
        assert multiplier == pytest.approx(1e18 * (1.4 / above) ** (1 / 0.15) / compute, rel=1e-4)
    assert found.growth > 0
    assert compare(ladder(1.4, 0.15, 1), ladder(1.2, 0.18, 2)).grows == "grows with scale"


def test_intervals_hold_the_multiplier() -> None:
    held, flat = [], []
    for seed in range(40):
        found = compare(ladder(1.4, 0.16, seed), ladder(1.4 / 1.5**0.16, 0.16, 100 + seed), refits=200, seed=seed)
        held += [band is not None and band.low <= 1.5 <= band.high for band in found.intervals]
        flat.append(found.grows.startswith("no change"))
    assert 0.85 <= np.mean(held) <= 1
    assert np.mean(flat) >= 0.85


def test_dearer_runs_that_lose_are_no_frontier_and_too_few_are_refused(tmp_path: Path) -> None:
    runs = ladder(1.4, 0.16, None)
    params, tokens, loss = (
        np.concatenate([each, each[-1:] * more])
        for each, more in ((runs.params, 1.1), (runs.tokens, 1.0), (runs.loss, 1.2))
    )
    worse = calc.Runs(params, tokens, loss)
    assert compare(worse, runs, refits=5).multiplier == pytest.approx([1.0] * 4, rel=1e-6)
    with pytest.raises(Refused, match="4 runs of the second recipe that no cheaper one beats"):
        compare(runs, ladder(1.4, 0.16, None, sizes=3))
    with pytest.raises(Refused, match="computes that both recipes have runs of"):
        compare(runs, ladder(1.4, 0.16, None, sizes=5, high=4e7))


def test_on_the_command_line(tmp_path: Path) -> None:
    paths = []
    for name, runs in (("old", ladder(1.4, 0.16, 1)), ("new", ladder(1.3, 0.16, 2))):
        paths.append(str(tmp_path / f"{name}.csv"))
        rows = zip(runs.params, runs.tokens, runs.loss, strict=True)
        Path(paths[-1]).write_text("N,D,loss\n" + "\n".join(f"{n},{d},{loss}" for n, d, loss in rows))
    words = ["fit", paths[0], "--against", paths[1], "--refits", "200"]
    record = json.loads(CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False).stdout)
    assert record["multiplier"][0] == pytest.approx((1.4 / 1.3) ** (1 / 0.16), rel=0.2)
    text = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    assert "for the same loss" in text
    assert "above 1 the second saves compute" in text


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--against", "docs/example-runs.csv", "--law", "kaplan"), "--law"),
        (("--against", "docs/example-runs.csv", "--chance", "0.2"), "--chance"),
        (("--against", "docs/example-runs.csv", "--compute", "1e21"), "--compute"),
        (("--accuracy", "loss", "--best"), "--best"),
    ],
)
def test_options_that_would_change_nothing_are_refused(words: tuple[str, ...], option: str) -> None:
    with pytest.raises(Refused, match=f"{option}: expected no --a"):
        CliRunner().invoke(cli, ["fit", "docs/example-runs.csv", *words], catch_exceptions=False, standalone_mode=False)


def test_without_refits_there_are_no_intervals() -> None:
    found = compare(ladder(1.4, 0.16, 1), ladder(1.3, 0.16, 2), refits=0)
    assert found.intervals == (None,) * 4
    assert found.growth_interval is None
    assert "refits" in found.grows
