"""What a search answers: plans with their numbers, which of them are ties, and why one wins over the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calc.plan.command import predict_command
from calc.plan.objective import Objective
from calc.plan.question import CONTEXT, Question, plan_words
from calc.spec.run import Run
from calc.time import Prediction, speed_of
from calc.time.economics import Economics, economics
from calc.time.step.waterfall import waterfall
from calc.units import duration

NAMED, LEAST = 3, 0.001
"""Of the difference of two plans: how many parts have a name, and which part of a step is worth a word."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan. peak, reserved: bytes of the rank that holds the most, as `memory` counts them. host, host_at_most: of
    a machine's memory for each GPU, as there too. value: what was to be least. on_front: whether no plan of as many
    GPUs is better in that and holds less. parts: how much of a plan is switched on. copy: whether a better one differs
    from it in its micro-batch and the pieces of its stages alone."""

    question: Question
    run: Run
    prediction: Prediction
    peak: int
    reserved: int
    host: int
    host_at_most: int
    value: float
    on_front: bool
    parts: float
    copy: bool = False

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.prediction.seconds

    @property
    def fits(self) -> bool:
        """Whether what PyTorch reserves leaves the headroom that was asked for, and CUDA's context, and a machine's
        memory has room for what stands there."""
        return self.reserved <= self.question.budget and bool(
            self.question.host_holds(self.host_at_most, self.run.gpus)
        )

    @property
    def room(self) -> int:
        """Bytes of a GPU that are left beside what PyTorch reserves and CUDA's context."""
        return self.question.device.usable - CONTEXT - self.reserved

    def whole_run(self, tokens: float) -> Economics:
        """A run of so many tokens, with its checkpoints and failures."""
        asked = self.question
        return economics(asked.spec, self.prediction, asked.device, tokens=int(tokens), price=asked.price)


@dataclass(frozen=True, slots=True)
class Answer:
    """Plans, the best first. unlike: as many, without near copies of better ones. front: those that no plan of as many
    GPUs beats in what was asked for and in memory; of several that hold about as much, the best. by_gpus: the best on
    each number of GPUs.

    plainest: of the plans that the interval of the best does not tell from it, the one with the least switched on.
    listed: plans that were looked at; timed: those of them that fit. ruled: how many others each reason ruled out.
    least: (bytes, run) of the plan that reserves the least, of those that are too large too. unread: what is not
    described, a line each. interrupted: whether the search was ended before it was through.
    """

    objective: Objective
    plans: tuple[Plan, ...]
    unlike: tuple[Plan, ...]
    front: tuple[Plan, ...]
    by_gpus: tuple[Plan, ...]
    plainest: Plan | None
    listed: int
    timed: int
    ruled: Counter[str]
    least: tuple[int, Run] | None
    unread: tuple[str, ...]
    interrupted: bool

    def records(self, tokens: float | None = None) -> list[dict[str, Any]]:
        """A record a plan, the best first. tokens: of a whole run, whose days and GPU-hours are then told too."""
        return [self.record(place, tokens) for place in range(len(self.plans))]

    def record(self, place: int, tokens: float | None = None) -> dict[str, Any]:
        """The plan at one place of the list."""
        plan = self.plans[place]
        others = [*self.plans[place + 1 : place + 2]]
        return {
            "rank": place + 1,
            **record_of(plan, self.plans[0], tokens),
            "why": difference(plan, others[0]) if others else "",
        }

    def frame(self) -> Any:
        """The plans as a pandas DataFrame, a row each."""
        import pandas

        return pandas.json_normalize(self.records())


def record_of(plan: Plan, best: Plan, tokens: float | None = None) -> dict[str, Any]:
    """What scripts read of one plan."""
    found, interval = plan.prediction, plan.prediction.interval
    record = {
        "plan": plan_words(plan.run),
        "model": found.model,
        "cluster": plan.question.cluster.name,
        "seconds": found.seconds,
        "tokens": found.tokens,
        "tokens_per_second": found.tokens_per_second,
        "mfu": found.mfu,
        "mfu_convention": found.mfu_counting.convention,
        "mfu_pairs": found.mfu_counting.pairs,
        "memory_peak": plan.peak,
        "memory_reserved": plan.reserved,
        "memory_left": plan.room,
        "memory_host": plan.host,
        "memory_host_at_most": plan.host_at_most,
        "fits": plan.fits,
        "gpus": plan.run.gpus,
        "interval": {"level": interval.level, "low": interval.low, "high": interval.high},
        "tied": tied(plan, best),
        "front": plan.on_front,
        "command": predict_command(plan.question, plan.run),
    }
    return record | costs(plan, tokens)


def costs(plan: Plan, tokens: float | None) -> dict[str, float]:
    """Days, GPU-hours, money and energy of a run of so many tokens (`calc.time.economics`); money of a step where
    nothing is said of the run."""
    price = plan.question.price
    if tokens is None:
        return {} if price is None else {"step_cost": plan.run.gpus * plan.seconds / 3600 * price}
    whole = plan.whole_run(tokens)
    found = {"days": whole.days, "gpu_hours": whole.gpu_hours, "money": whole.money, "energy_kwh": whole.energy}
    return {name: value for name, value in found.items() if value is not None}


def tied(plan: Plan, best: Plan) -> bool:
    """Whether the interval of the best plan does not tell another from it."""
    return plan.value <= best.value * best.prediction.interval.high / best.seconds


def difference(plan: Plan, other: Plan) -> str:
    """Where a plan is faster than the next and where it is slower: the three larger differences of their steps and what
    all others come to, after the difference of the whole."""
    one, two = seconds_lost(plan), seconds_lost(other)
    apart = {name: two.get(name, 0.0) - one.get(name, 0.0) for name in {**one, **two}}
    largest = sorted(apart, key=lambda name: -abs(apart[name]))[:NAMED]
    named = {name: apart[name] for name in largest}
    named["of all else"] = sum(apart.values()) - sum(named.values())
    worth = {name: seconds for name, seconds in named.items() if abs(seconds) >= LEAST * plan.seconds}
    if not worth:
        return "equal in time to a part in a thousand"
    return f"{_less(sum(apart.values()))}: {', '.join(f'{_less(worth[name])} {name}' for name in worth)}"


def _less(seconds: float) -> str:
    return f"{duration(abs(seconds))} {'less' if seconds >= 0 else 'more'}"


def seconds_lost(plan: Plan) -> Mapping[str, float]:
    """Seconds of a step by what they are lost to (`calc.time.step.waterfall`)."""
    return {bar.what: bar.seconds for bar in waterfall(plan.prediction, speed_of(plan.question.device))}


def plainest(plans: Sequence[Plan]) -> Plan | None:
    """Of the plans that are ties with the first, the one with the least switched on, and of those the best."""
    ties = [plan for plan in plans if tied(plan, plans[0])]
    return min(ties, key=lambda plan: (plan.parts, plan.value), default=None)
