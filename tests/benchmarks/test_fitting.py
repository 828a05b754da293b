"""How fast fits are, on the points of Chinchilla's figure 4 where the reference data is, else on as many made up."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calc
from calc.fitting import bootstrap, minimum
from calc.fitting.forms import find
from calc.fitting.solver import Data
from tests import reference
from tests.fitting.surfaces import losses

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs() -> calc.Runs:
    folder = reference.find()
    if folder is not None:
        return calc.read_runs(folder / "scaling" / "runs" / "epoch_chinchilla.csv", where=["notes!~outlier"])
    random = np.random.default_rng(0)
    params, tokens = 10 ** random.uniform(7.8, 10.2, 240), 10 ** random.uniform(8.9, 11.5, 240)
    theta = np.array([math.log(478), 0.347, math.log(2143), 0.367, math.log(1.817), 0.0])
    return calc.Runs(params, tokens, losses(theta, params, tokens) * np.exp(random.normal(0, 0.006, 240)))


@pytest.mark.benchmark(group="a fit of 240 runs from every start is to take at most 30 ms", warmup=True)
def test_fit(benchmark: Any, runs: calc.Runs) -> None:
    form, aim = find("chinchilla"), minimum.OBJECTIVES["huber"]
    best = benchmark(lambda: minimum.best(form, Data.of(runs.params, runs.tokens, runs.loss), aim))
    assert best.agreeing == best.starts


@pytest.mark.benchmark(group="a fit of 240 runs from every start is to take at most 30 ms", warmup=True)
def test_fit_with_held_out_error(benchmark: Any, runs: calc.Runs) -> None:
    fit = benchmark(calc.fit, runs, refits=0)
    if reference.find() is not None:
        assert fit.objective == pytest.approx(0.0010182740178, rel=1e-9)


@pytest.mark.benchmark(group="4,000 bootstrap refits are to take at most 1.5 s", min_rounds=2)
def test_bootstrap(benchmark: Any, runs: calc.Runs) -> None:
    form, aim = find("chinchilla"), minimum.OBJECTIVES["huber"]
    data = Data.of(runs.params, runs.tokens, runs.loss)
    moving = minimum.best(form, data, aim).moving
    found = benchmark(bootstrap.refits, form, moving, data, aim.delta, 4000, 0, None)
    assert np.isfinite(found[:, :5]).all()


MEASURED = """
import re, sys
from pathlib import Path
from calc.cli import cli
cli(["fit", sys.argv[1], "--json"], standalone_mode=False)
# Not ru_maxrss, which a process inherits from the one that started it.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024, file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from Linux's /proc")
@pytest.mark.benchmark(group="`fit` of 10^6 rows is to take at most 10 s and 500 MB")
def test_a_million_rows(benchmark: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    params, tokens = 10 ** random.uniform(7.5, 10, 1_000_000), 10 ** random.uniform(9, 11.5, 1_000_000)
    theta = np.array([math.log(478), 0.347, math.log(2143), 0.367, math.log(1.817), 0.0])
    loss = losses(theta, params, tokens) * np.exp(random.normal(0, 0.005, 1_000_000))
    path = tmp_path / "runs.csv"
    np.savetxt(path, np.column_stack([params, tokens, loss]), fmt="%.7g", delimiter=",", header="N,D,loss", comments="")
    words = [sys.executable, "-c", MEASURED, str(path)]
    done = benchmark.pedantic(subprocess.run, (words,), {"capture_output": True, "text": True}, rounds=1)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) <= 500e6
