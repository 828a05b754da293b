"""Which cases belong together, chosen for the machine they run on."""

from __future__ import annotations

from collections.abc import Callable

from calc.errors import Refused, did_you_mean
from harness.cases import Case, attention_suite, lists
from harness.cases.survey_suite import survey
from harness.cases.unseen import unseen
from harness.record import Environment

SUITES: dict[str, Callable[[Environment], list[Case]]] = {
    "quick": lists.quick,
    "kernels": lists.kernels,
    "attention": attention_suite.attention,
    "models": lists.models,
    "unseen": unseen,
    "survey": survey,
    "full": lists.full,
}
"""Suite -> its cases on a machine."""
BUDGETS = {("quick", "cpu"): 100.0, ("quick", "cuda"): 100.0, ("attention", "cpu"): 165.0, ("attention", "cuda"): 560.0}
"""(suite, kind of device) -> seconds that it may take in all, for those that promise an end."""


def budget(name: str, environment: Environment) -> float | None:
    """Seconds that a suite may take in all on a machine, None where it has what its cases need."""
    return BUDGETS.get((name, environment.device))


_CPU = Environment(
    slug="any", device="cpu", name="", cores=1, threads=1, memory=2**34, cpu="", os="", python="", torch=""
)
_GPU = _CPU.model_copy(update={"device": "cuda"})
MACHINES = (_CPU, _GPU, _GPU.model_copy(update={"memory": 2**40}))
"""One of each sort of machine that a suite tells apart: a CPU, a GPU with little memory, and one with much."""


def possible_cases(name: str) -> list[Case]:
    """The cases that a suite has on one machine or another, each once. Errors: Refused for a suite there is not."""
    return list({case.id: case for machine in MACHINES for case in suite_cases(name, machine)}.values())


def suite_cases(name: str, environment: Environment) -> list[Case]:
    """The cases of a suite, each once, in its order. Errors: Refused for a suite that there is not."""
    if name not in SUITES:
        raise Refused("--suite", f"one of {', '.join(SUITES)}{did_you_mean(name, SUITES)}", name)
    return list({case.id: case for case in SUITES[name](environment)}.values())
