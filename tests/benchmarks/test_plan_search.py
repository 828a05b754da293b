"""How fast plans are searched, and in how much memory."""

from __future__ import annotations

import resource
from typing import Any

import pytest

import calc
from calc.plan.launchers import launcher
from calc.plan.question import Question
from calc.plan.search import Seen, search
from calc.spec.clusters import load_cluster
from calc.time.step import one_pass

pytestmark = pytest.mark.slow
GPUS = {"llama-3-70b": (64, 128, 256, 512, 1024), "deepseek-v3": (512, 1024, 2048)}


def question(model: str, gpus: tuple[int, ...], sequences: int) -> Question:
    words = {"stack": "megatron-core"}
    recipes, where = launcher("megatron-core").recipes, load_cluster("dgx-h100")
    return Question(calc.load_model(model), where, gpus, 4096, sequences, recipes, at_most={"batch": 2}, words=words)


def searched(asked: Question) -> Seen:
    """A search that remembers no pass of an earlier one."""
    one_pass.forget()
    return search(asked, 10)


@pytest.mark.benchmark(group="all plans on several numbers of GPUs: 100,000 are to take a second", min_rounds=2)
@pytest.mark.parametrize("model", GPUS)
def test_every_plan(benchmark: Any, model: str) -> None:
    # Nobody reads times among other tests: one number of GPUs is enough there.
    gpus = GPUS[model][: 1 if benchmark.disabled else None]
    found = benchmark(searched, question(model, gpus, 15360))
    benchmark.extra_info["plans"] = found.plans
    assert found.plans > 50_000 * len(gpus)
    assert found.timed > 1000


def test_ten_times_the_plans_take_no_more_memory() -> None:
    """What a search holds does not grow with what it has seen."""
    few = searched(question("llama-3-70b", (64,), 15360))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    many = searched(question("llama-3-70b", tuple(192 * n for n in (1, 2, 4, 8)), 15360 * 9))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert many.plans > 10 * few.plans
    assert grown < 100 * 1024  # KiB, whatever their number
