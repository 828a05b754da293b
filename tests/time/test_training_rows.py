"""How wrong predicted steps of training are, on published rows that no constant saw (docs/prediction-measured.md)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable
from functools import cache
from statistics import mean, median
from typing import NamedTuple

import pytest

from calc.errors import Refused
from calc.spec.clusters import load_cluster
from calc.spec.stack import load_stack, stack_names
from calc.time import Prediction, predict
from tests.cli.test_commands import Run, run
from tests.reference import ROOT
from tests.time.training_rows import TrainingRow, split, training_rows

__all__ = ["run"]

pytestmark = pytest.mark.slow
REGIMES = {"1 to 8": (1, 8), "9 to 64": (9, 64), "65 to 512": (65, 512), "above 512": (513, 10**9)}
FEW = 30
"""Rows below which nothing is said of an interval."""
MOST = {"dense": (0.08, 0.12), "experts": (0.15, 0.2), "nvfp4": (0.15, 1), "lora": (0.15, 1), "AMD and TPU": (0.2, 1)}
"""Kind -> the median and the mean error that are promised."""
REFUSED = 0.05
"""Part of the rows that may be refused."""


class Scored(NamedTuple):
    """A published step beside the predicted one."""

    row: TrainingRow
    predicted: Prediction

    @property
    def error(self) -> float:
        """Share of the measured seconds."""
        return abs(self.predicted.seconds / self.row.seconds - 1)

    @property
    def inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.predicted.interval.low <= self.row.seconds <= self.predicted.interval.high


@cache
def scored() -> tuple[list[Scored], list[TrainingRow]]:
    """Rows that no constant saw with their predictions, and those that are refused."""
    found, refused = [], []
    for row in training_rows():
        if row.fitted:
            continue
        gpu = load_cluster(row.words["cluster"]).gpu
        try:
            found.append(Scored(row, predict(row.spec, gpu, phase="training", **row.words)))
        except Refused:
            refused.append(row)
    return found, refused


def test_every_row_is_fitted_on_or_judged_and_not_both() -> None:
    for row in training_rows():
        parts = [part for part in ("fit", "judge") if row.system in split()[part].get(row.source, ())]
        assert len(parts) == 1, (row.source, row.system)


@pytest.mark.parametrize("name", stack_names())
def test_constants_name_rows_of_the_fit_alone(name: str) -> None:
    for named in load_stack(name).fitted.on:
        source, _, system = named.partition(": ")
        assert system in split()["fit"][source]


def test_few_rows_are_refused() -> None:
    found, refused = scored()
    assert len(refused) <= REFUSED * (len(found) + len(refused))


@pytest.mark.parametrize("kind", MOST)
def test_errors_are_as_promised(kind: str) -> None:
    errors = [each.error for each in scored()[0] if each.row.kind == kind]
    assert median(errors) <= MOST[kind][0]
    assert mean(errors) <= MOST[kind][1]


def test_the_document_holds_what_is_computed() -> None:
    """Its three tables: by kind, by source and kind, and by number of GPUs."""
    page = (ROOT / "docs" / "prediction-measured.md").read_text()
    for line in (*by_kind(), *by_source(), *by_regime()):
        assert line in page, line


@pytest.mark.parametrize(("gpus", "published"), [(16384, 400e12), (8192, 430e12)])
def test_llama_405b_as_its_paper_spread_it(run: Run, gpus: int, published: float) -> None:
    """arXiv:2407.21783, table 4: FLOPs of 6 a parameter and token, and of attention over half of all pairs."""
    record = json.loads(run(*_documented(f"--gpus {gpus}"), "--json")[1])
    flops = (6 * 405.85e9 + 6 * 126 * 16384 * 8192) * record["tokens_per_second"] / gpus
    assert flops == pytest.approx(published, rel=0.15)
    assert f"{flops / 1e12:.0f}" in (ROOT / "docs" / "prediction.md").read_text()


def test_deepseek_v3_as_its_paper_spread_it(run: Run) -> None:
    """arXiv:2412.19437, table 1: 2.664 million GPU-hours of pre-training on 14.8T tokens."""
    record = json.loads(run(*_documented("deepseek-v3"), "--json")[1])
    hours = record["economics"]["gpu_hours"]
    assert hours == pytest.approx(2.664e6, rel=0.15)
    assert f"{hours / 1e6:.2f} are predicted" in " ".join((ROOT / "docs" / "prediction.md").read_text().split())


def _documented(mark: str) -> list[str]:
    """The words of the documented command that has `mark`."""
    lines = (ROOT / "docs" / "prediction.md").read_text().splitlines()
    (line,) = (each for each in lines if each.startswith("python -m calc predict") and mark in each)
    return shlex.split(line)[3:]


def by_kind() -> list[str]:
    """Lines of the table by kind."""
    return _lines(lambda each: each.row.kind, MOST)


def by_source() -> list[str]:
    """Lines of the table by source and kind."""
    names = sorted({f"{each.row.source}, {each.row.kind}" for each in scored()[0]})
    return _lines(lambda each: f"{each.row.source}, {each.row.kind}", names)


def by_regime() -> list[str]:
    """Lines of the table by number of GPUs: rows, and the part of them that the interval holds."""
    lines = []
    for name, (least, most) in REGIMES.items():
        some = [each for each in scored()[0] if least <= each.predicted.gpus <= most]
        held = sum(each.inside for each in some) / len(some)
        told = f"{held:.0%}".replace("%", " %") if len(some) >= FEW else "too few rows to say"
        lines.append(f"| {name} | {len(some)} | {told} |")
    return lines


def _lines(key: Callable[[Scored], str], names: Iterable[str]) -> list[str]:
    lines = []
    for name in names:
        some = [each for each in scored()[0] if key(each) == name]
        errors = [each.error for each in some]
        ratio = median(each.row.seconds / each.predicted.seconds for each in some)
        cells = (f"{median(errors):.0%}", f"{mean(errors):.0%}", f"{max(errors):.0%}")
        told = " | ".join(cell.replace("%", " %") for cell in cells)
        lines.append(f"| {name} | {len(some)} | {told} | {ratio:.2f} |")
    return lines


if __name__ == "__main__":
    print(*by_kind(), "", *by_source(), "", *by_regime(), sep="\n")
