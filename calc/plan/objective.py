"""What a plan is to have the least of: time, money or energy of a step."""

from __future__ import annotations

from typing import Any, Literal, get_args

from calc.errors import Refused
from calc.plan.question import Question
from calc.time.economics import failures

Objective = Literal["time", "cost", "energy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


def weight_of(question: Question, objective: Objective, gpus: Any) -> Any:
    """What a second of a step on so many GPUs weighs: 1, its price, or joules at the boards' limits of power times
    the data centre's PUE, as in the energy of a whole run.

    Errors: Refused for cost without a price, and for energy of a device whose power is not known.
    """
    if objective == "time":
        return 1.0 + 0.0 * gpus
    if objective == "cost":
        if question.price is None:
            raise Refused(
                "--price", f"the price of a GPU-hour of {question.cluster.name} beside --objective cost", "none"
            )
        return gpus * question.price / 3600
    if question.device.power is None:
        raise Refused(
            "--objective", f"one other than energy: the power of {question.device.name} is not known", objective
        )
    return gpus * float(question.device.power.value) * float(failures()["power"]["pue"])
