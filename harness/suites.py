"""Which cases belong together, chosen for the machine they run on."""

from __future__ import annotations

from collections.abc import Callable

from calc.errors import Refused, did_you_mean
from harness.cases import Case, lists
from harness.cases.unseen import unseen
from harness.record import Environment

SUITES: dict[str, Callable[[Environment], list[Case]]] = {
    "quick": lists.quick,
    "kernels": lists.kernels,
    "attention": lists.attention,
    "models": lists.models,
    "unseen": unseen,
    "full": lists.full,
}
"""Suite -> its cases on a machine."""
BUDGETS = {"quick": 100.0}
"""Seconds that a suite may take in all, for those that promise an end."""


def suite_cases(name: str, environment: Environment) -> list[Case]:
    """The cases of a suite, each once, in its order. Errors: Refused for a suite that there is not."""
    if name not in SUITES:
        raise Refused("--suite", f"one of {', '.join(SUITES)}{did_you_mean(name, SUITES)}", name)
    return list({case.id: case for case in SUITES[name](environment)}.values())
