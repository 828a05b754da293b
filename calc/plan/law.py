"""Size, tokens and plan together: a law's optimum for what the plan of such a model really reaches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.laws import find
from calc.optimum import Optimum, optimal, shapes
from calc.optimum.budget import DAY
from calc.optimum.shapes import Shape
from calc.plan.answer import Answer, Plan
from calc.plan.planning import answer
from calc.plan.question import Question, sequences_of
from calc.workers.job import Progress

FIRST = 0.4
"""Utilisation that the first optimum is asked with; the answer does not depend on it."""
ROUNDS = 8
NEAR, FAR = 0.01, 0.1
"""Change of utilisation, as a share of it, at which the rounds end, and after the last of them no answer is given: what
can be built comes in steps, so that two models may lead to one another for ever."""


class JointOptimum(NamedTuple):
    """optimum: the law's answer. built: the buildable model nearest to it. plan: its best. utilisation: FLOPs as the
    law counts them over what the GPUs could do at their bf16 peak, checkpoints and failures included. rounds: how many
    it took. apart: by what share that differs from what the optimum was asked with. interrupted: whether they were
    ended before they came to rest."""

    optimum: Optimum
    built: Shape
    plan: Plan
    utilisation: float
    rounds: int
    apart: float
    interrupted: bool = False


def optimal_on(
    question: Question, days: float, law: str, progress: Progress | None = None, **request: Any
) -> JointOptimum:
    """The compute-optimal model of a family that the GPUs of a question train in so many days, with its plan.

    question: of the family's own model; its sequences, where they are 0, are those of the law's own batch.
    request: what else the law is asked (`calc.optimum.optimal`).
    Ctrl-C ends the rounds: the best of those that were through is the answer, or what the first found until then.
    Errors: Refused as `optimal` and `shapes`, for several numbers of GPUs, where no plan of such a model fits, and
    where the rounds find no end; KeyboardInterrupt where nothing was found until then.
    """
    if len(question.gpus) != 1:
        raise Refused("--gpus", "one number beside --days", ",".join(map(str, question.gpus)))
    (gpus,), name = question.gpus, question.device.name
    used, best, interrupted = FIRST, None, False
    for turn in range(1, ROUNDS + 1):
        found = optimal(law, gpu_days=gpus * days, gpu=name, mfu=used, gpus=gpus, **request)
        built = shapes(question.spec, found.params, find(law).counts, 1)[0]
        answered = _answer(question, built, found, progress)
        interrupted = answered.interrupted
        if interrupted and (best is not None or not answered.plans):
            break
        plan = answered.plans[0]
        reached = _used(plan, found)
        apart = abs(reached / used - 1)
        if best is None or apart < best.apart:
            best = JointOptimum(found, built, plan, reached, turn, apart)
        if apart <= NEAR or interrupted:
            break
        # Half of the way after the first rounds, which two models that lead to one another would pass.
        used = reached if turn < 3 else math.sqrt(reached * used)
    if best is None:
        raise KeyboardInterrupt
    if best.apart > FAR and not interrupted:
        raise Refused("--days", "a question whose rounds of size and plan come to rest", f"{days:g} days")
    return best._replace(interrupted=interrupted)


def near_shapes(question: Question, found: JointOptimum, law: str, limit: int) -> Sequence[Shape]:
    """The buildable models nearest to an optimum."""
    return shapes(question.spec, found.optimum.params, find(law).counts, limit)


def _answer(question: Question, built: Shape, found: Optimum, progress: Progress | None) -> Answer:
    """The best plan of a model. Errors: Refused where none fits."""
    sequences = question.sequences or batch_near(found.batch_tokens, question)
    posed = replace(question, sequences=sequences).of_shape(built.spec, built.sizes)
    answered = answer([posed], top=1, progress=progress)
    if not answered.plans and not answered.interrupted:
        raise Refused("--gpus", f"enough for {built.params / 1e9:.3g}B parameters, the law's size", question.gpus[0])
    return answered


def batch_near(tokens: float, question: Question) -> int:
    """Sequences of a batch near to so many tokens that data-parallel ranks can share: a multiple of the GPUs, or where
    these are more the largest power of two among their divisors."""
    wanted, gpus = sequences_of(max(int(tokens), question.seq), question.seq), question.gpus[0]
    step = gpus if wanted >= gpus else min(gpus & -gpus, 2 ** (wanted.bit_length() - 1))
    return max(step, round(wanted / step) * step)


def _used(plan: Plan, found: Optimum) -> float:
    """The law's FLOPs of the tokens that the plan trains on, over what its GPUs could do in the time."""
    days = plan.whole_run(found.tokens).days
    return found.compute / (plan.run.gpus * days * DAY * plan.question.device.peak("bf16"))
