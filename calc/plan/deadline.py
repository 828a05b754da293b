"""Training by a deadline: how few GPUs for so many tokens in so many days, or how many tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from calc.errors import Refused
from calc.optimum.budget import DAY
from calc.plan.answer import Answer, Plan
from calc.plan.planning import answer
from calc.plan.question import MOST_GPUS, Question
from calc.workers.job import Progress
from calc.workers.workers import HERE, Workers

QUARTERS = (5, 6, 7)
"""Between a number of GPUs that is too few and twice as many: so many quarters of it are tried."""


class Fewest(NamedTuple):
    """found: the plans on the fewest GPUs of those tried that are in time; None where none is. tried: GPUs -> days of
    the best plan on them, None where no plan fits. interrupted: whether some were left that might have been enough."""

    found: Answer | None
    tried: dict[int, float | None]
    interrupted: bool = False


def tokens_in(plan: Plan, days: float) -> float:
    """Tokens that a plan trains on in so many days, of which checkpoints and failures take their part."""
    one = plan.whole_run(plan.prediction.tokens)
    return days * DAY * plan.prediction.tokens_per_second * one.goodput


def fewest_gpus(
    question: Question,
    tokens: float,
    days: float,
    top: int,
    progress: Progress | None = None,
    workers: Workers = HERE,
) -> Fewest:
    """The plans on the fewest GPUs that train on so many tokens in so many days.

    The numbers of GPUs of the question are tried where it has several; else doublings from a machine's, and then
    quarters between the last that is too few and the first that is enough. Ctrl-C ends the search: what was found until
    then is the answer.
    Errors: Refused for days and tokens that are not above 0.
    """
    for name, amount in (("--tokens", tokens), ("--days", days)):
        if not amount > 0:
            raise Refused(name, "a number above 0", amount)
    tried: dict[int, float | None] = {}
    enough: Answer | None = None
    short, interrupted = 0, False
    for gpus in candidates(question):
        own = _tried(question, gpus, tokens, tried, top, progress, workers)
        interrupted = own.interrupted
        if own.plans and (tried[gpus] or days + 1) <= days:
            enough = own
            break
        short = gpus
        if interrupted:
            del tried[gpus]  # Plans that were not reached may be in time.
            break
    if enough is None or interrupted or len(question.gpus) > 1:
        return Fewest(enough, tried, interrupted)
    node = question.cluster.node
    for quarters in QUARTERS if short else ():
        gpus = short * quarters // 4
        if gpus % node == 0 and gpus not in tried:
            own = _tried(question, gpus, tokens, tried, top, progress, workers)
            if own.plans and (tried[gpus] or days + 1) <= days:
                return Fewest(own, tried, own.interrupted)
            if own.interrupted:
                del tried[gpus]
                return Fewest(replace(enough, interrupted=True), tried, True)
    return Fewest(enough, tried)


def candidates(question: Question) -> list[int]:
    """The numbers of GPUs that are tried first, the fewest first."""
    if len(question.gpus) > 1:
        return sorted(question.gpus)
    found, most = [question.cluster.node], min(question.cluster.most or MOST_GPUS, *question.gpus)
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found


def _tried(
    question: Question,
    gpus: int,
    tokens: float,
    tried: dict[int, float | None],
    top: int,
    progress: Progress | None,
    workers: Workers,
) -> Answer:
    """The plans on so many GPUs; their days are noted."""
    own = answer([replace(question, gpus=(gpus,))], "time", top, progress, workers)
    tried[gpus] = own.plans[0].whole_run(tokens).days if own.plans else None
    return own
