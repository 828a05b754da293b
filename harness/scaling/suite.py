"""Run experiments, fit a line, predict: what is missing is trained, the rest is arithmetic."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from calc.errors import Refused, printable
from harness.environment import PYTHON, child_variables
from harness.record import Environment
from harness.scaling import table
from harness.scaling.plan import Plan, Size
from harness.scaling.training import request, work

if TYPE_CHECKING:
    from calc.fitting.fit import Fit

Say = Callable[[float, float], None]
"""Told of the part of all training that is done, and of the seconds that are left."""
OVERHEAD = 30_000
"""Parameters whose products take as long as what a step of any model costs besides, for the time that is left."""


class Prediction(NamedTuple):
    """A training of the model that was held out: loss as the fit to all other models has it, and as it came out."""

    run: str
    params: int
    tokens: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Report:
    """fit: to all models but the largest. floor, unigram: entropies of the held-out text, in nats a token: of the
    language itself, and of one who knows no more than how frequent tokens are. trained: models in this start."""

    path: Path
    dataset: str
    rows: dict[table.Key, dict[str, float]]
    fit: Fit
    predictions: tuple[Prediction, ...]
    floor: float
    unigram: float
    trained: int


def run(plan: Plan, results: Path, environment: Environment, say: Say, fresh: bool = False) -> Report:
    """Train the models of the plan that have no rows yet, each in a child process, and fit.

    fresh: train all of them again, for a file that another start keeps. A model's rows are written when it is finished,
    so that a kill costs those models that were being trained.
    Errors: Refused where a child fails; OSError where a row cannot be written.
    """
    path = table.path_of(results, environment.slug)
    rows = {} if fresh else table.read(path, plan.dataset)
    missing = [size for size in plan.sizes if any((size.name, budget) not in rows for budget in plan.budgets)]
    if missing:
        train(plan, missing, environment, path, say)
        rows = table.read(path, plan.dataset)
    return report(plan, path, rows, len(missing))


def report(plan: Plan, path: Path, rows: dict[table.Key, dict[str, float]], trained: int = 0) -> Report:
    """Fit the rows of all models but the last, and predict that one's. Errors: Refused for what cannot be fitted."""
    from calc.fitting.fit import fit

    *small, large = plan.sizes
    used = [rows[size.name, budget] for size in small for budget in plan.budgets]
    columns = {name: [row[name] for row in used] for name in ("params_total", "tokens", "loss")}
    runs = [size.name for size in small for _ in plan.budgets]
    found = fit({**columns, "run": runs}, refits=1000)
    predictions = []
    for budget in plan.budgets:
        row = rows[large.name, budget]
        predicted = found.predict(row["params_total"], budget)
        predictions.append(Prediction(large.name, int(row["params_total"]), budget, predicted, row["loss"]))
    text = plan.language.text(plan.tested, plan.seq, seed=2)
    floor, unigram = plan.language.entropy(text), plan.language.unigram_entropy(text)
    return Report(path, plan.dataset, rows, found, tuple(predictions), floor, unigram, trained)


def train(plan: Plan, sizes: Sequence[Size], environment: Environment, path: Path, say: Say) -> None:
    """Train models in children, one thread and one core each, the largest first; write each one's rows at its end."""
    waiting = sorted(sizes, key=lambda size: size.d_model**2 * size.n_layers)
    at_once = 1 if environment.device == "cuda" else max(1, min(environment.cores, len(sizes)))
    weights = {size: plan.row(size, plan.budgets[0], 1.0)["params_total"] + OVERHEAD for size in sizes}
    total = sum(weights.values()) * work(plan)
    done: dict[Size, int] = dict.fromkeys(sizes, 0)
    begin = time.monotonic()
    with selectors.DefaultSelector() as pipes:
        children: list[_Child] = []
        try:
            while waiting or children:
                while waiting and len(children) < at_once:
                    children.append(_Child(plan, waiting.pop(), environment.device))
                    pipes.register(children[-1].output, selectors.EVENT_READ, children[-1])
                for key, _ in pipes.select(1.0):
                    child: _Child = key.data
                    if not child.read():
                        pipes.unregister(child.output)
                        children.remove(child)
                        table.add(path, child.rows(environment))
                    done[child.size] = child.tokens
                part = sum(weights[size] * tokens for size, tokens in done.items()) / total
                passed = time.monotonic() - begin
                say(part, passed / part - passed if part else 0.0)
        finally:
            for child in children:
                child.end()


class _Child:
    """A model in training."""

    def __init__(self, plan: Plan, size: Size, device: str) -> None:
        self.plan = plan
        self.size = size
        self.tokens = 0
        self._losses: dict[str, float] | None = None
        self._begin = time.monotonic()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        # One thread: its results are then the same every time, and cores are better used by another model.
        self._child = subprocess.Popen(
            [*PYTHON, "-m", "harness.scaling.training", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=child_variables() | {"OMP_NUM_THREADS": "1"},
            process_group=0,
        )
        assert self._child.stdin is not None
        self._child.stdin.write(request(plan, size, device, threads=1).encode())
        self._child.stdin.close()

    @property
    def output(self) -> IO[bytes]:
        assert self._child.stdout is not None
        return self._child.stdout

    def read(self) -> bool:
        """Take in one message; False where there will be none."""
        line = self.output.readline()
        if line:
            message = json.loads(line)
            self.tokens = message.get("tokens", work(self.plan))
            self._losses = message.get("losses")
        return bool(line)

    def rows(self, environment: Environment) -> list[dict[str, Any]]:
        """The rows of a model that is finished. Errors: Refused where it did not get there."""
        status = self._child.wait()
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip().splitlines()
        self.end()
        if status or self._losses is None:
            raise Refused(self.size.name, "a training that ends", printable(words[-1] if words else f"status {status}"))
        seconds = time.monotonic() - self._begin
        extra = f"torch={environment.torch};commit={environment.commit};model_seconds={seconds:.1f}"
        losses = {int(budget): loss for budget, loss in self._losses.items()}
        return [{**self.plan.row(self.size, budget, loss), "extra": extra} for budget, loss in losses.items()]

    def end(self) -> None:
        """Kill it, if it lives, and let go of its files."""
        self._child.kill()
        self._child.wait()
        self.output.close()
        self._errors.close()
