"""What is odd in runs that an equation is fitted to: ladders of one ratio, runs that do not belong, pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from calc.errors import Refused
from calc.fitting import design, forms, majority, minimum, suspects
from calc.fitting.fit import predicting
from calc.fitting.law_runs import LawRuns
from calc.fitting.runs import Runs
from calc.fitting.templates import Template


def strangers(given: LawRuns, theta: Mapping[str, float]) -> Iterator[str]:
    """Runs far off the fit, and pools that lie apart, where the equation takes N and D alone.

    theta: every constant of the equation. Where fits of Chinchilla's form to most of the runs come nearer to them than
    the equation does, it is by those that single runs are judged.
    """
    if given.plain is None or set(given.equation.takes) != {"params", "tokens"}:
        return
    k, takes, plain = SimpleNamespace(**theta), given.equation.takes, given.plain

    def predict(params: Any, tokens: Any) -> Any:
        both = {"params": params, "tokens": tokens}
        return given.equation.rule(k, *(both[name] for name in takes))

    form, aim = forms.find("chinchilla"), minimum.huber(minimum.HUBER)
    most = majority.agreed_by_most(plain, predict, lambda places: predicting(form, aim, plain.where(places)))
    yield from suspects.sentence(plain, suspects.far_runs(plain, most), "--where leaves rows out")
    yield from suspects.apart(plain, predict)


def check_designs(template: Template | None, given: LawRuns) -> None:
    """A note where N and D move together.

    Errors: Refused where that would leave the optimum of a surface to chance.
    """
    if not {"params", "tokens"} <= set(given.inputs):
        return
    note = design.ladder(Runs(given.inputs["params"], given.inputs["tokens"], given.loss))
    if note and template and template.optimum:
        raise Refused("runs", "several tokens a parameter at each size (--law compute fits one)", note)
    if note:
        given.notes.append(f"{note}: what is fitted predicts along them alone")
