"""Which plan for servers is worth most, and meets what must hold of its means as `serve` simulates it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from calc.plan.serving_plan import ServingPlan, Wish
from calc.serve.answer import simulated
from calc.serve.workload import closed_count, closed_loop
from calc.workers.job import Progress, one_by_one

SLOWER = 2.0
"""How many times as long as in a simulation a token may take in closed form: where answers are short and start
together, no prompts come between their tokens."""
ALIKE = 1.03
"""How many times as much one plan may be worth as another in closed form that a simulation need not tell apart."""
MORE = 1.25
"""A layout is passed over that promises less than 1 / MORE of what the best is worth, or promised if that is less."""
FURTHER = 64
"""Layouts that are simulated behind the first that meets the SLO, at most."""

Growing = Sequence[ServingPlan]
"""One layout with ever more users."""


def best_of(wish: Wish, plans: Iterable[ServingPlan], progress: Progress | None) -> ServingPlan | None:
    """The plan of most worth; where there is an SLO, of those that meet it when they are simulated. Where there is
    none, of plans that are worth as much the one whose users see most."""
    if not wish.slo.asks:
        plans = list(plans)
        most = max((each.worth for each in plans), default=0.0)
        return max((each for each in plans if each.worth * ALIKE >= most), key=lambda each: each.swift, default=None)
    layouts: dict[object, dict[float, ServingPlan]] = {}
    for plan in sorted(plans, key=lambda each: (each.concurrency, -each.worth)):
        layouts.setdefault(_layout(plan), {}).setdefault(plan.concurrency, plan)
    every = [list(own.values()) for own in layouts.values()]
    able = [own for own in every if _times(wish, own[0]) <= SLOWER]
    return _confirmed(wish, sorted(able, key=lambda own: -_promised(wish, own)), progress)


def nearest_of(wish: Wish, plans: Iterable[ServingPlan]) -> ServingPlan | None:
    """Of plans that miss the SLO the one that does by least, as `serve` simulates it."""
    plan = min(plans, key=lambda each: _times(wish, each), default=None)
    return None if plan is None else _simulated(wish, plan)


def _times(wish: Wish, plan: ServingPlan) -> float:
    return wish.slo.times(plan.ttft, plan.tpot)


def _layout(plan: ServingPlan) -> object:
    """What plans have in common that differ in their load alone."""
    return tuple(
        (each.device.name, each.layout, each.engine.name, each.form.name, each.cache, each.budget)
        for each in plan.services
    )


def _confirmed(wish: Wish, layouts: Sequence[Growing], progress: Progress | None) -> ServingPlan | None:
    """The plan of most worth that meets the SLO request by request, as `serve` simulates it: the closed form has no
    queue of prompts that come together. layouts: the most promising first, in closed form."""
    best: ServingPlan | None = None
    promised, further = 0.0, 0
    for own in one_by_one("layouts, whether one meets the SLO", layouts, progress):
        promise = _promised(wish, own)
        if best is not None:
            # Closed forms may promise too little of all alike, or too much of the best one.
            if promise * MORE < min(promised, best.worth) or further == FURTHER:
                continue
            further += 1
        found = _most_users(wish, own, 0.0 if best is None else best.worth)
        if found is not None and (best is None or found.worth > best.worth):
            best, promised = found, promise
    return best


def _promised(wish: Wish, own: Growing) -> float:
    """What a layout is worth in closed form with as many users as meet the SLO there."""
    i = _first_guess(wish, own)
    if i + 1 == len(own) or _times(wish, own[i]) > 1:
        return own[i].worth
    here, there = _times(wish, own[i]), _times(wish, own[i + 1])
    return own[i].worth + (1 - here) / (there - here) * (own[i + 1].worth - own[i].worth)


def _first_guess(wish: Wish, own: Growing) -> int:
    """The most users that meet the SLO in closed form, or the fewest."""
    return max((i for i, plan in enumerate(own) if _times(wish, plan) <= 1), default=0)


def _most_users(wish: Wish, own: Growing, least: float) -> ServingPlan | None:
    """One layout with as many users as meet the SLO in a simulation, to a sixteenth; None where none do, or it would be
    worth no more than `least`. More users at once see no less, and are worth no less."""
    i = _first_guess(wish, own)
    found = _simulated(wish, own[i])
    missed: ServingPlan | None = None
    while not _meets(wish, found):
        if i == 0 or found.worth <= least:
            return None
        missed, i = own[i], i - 1
        found = _simulated(wish, own[i])
    for plan in own[i + 1 :] if missed is None else ():
        more = _simulated(wish, plan)
        if not _meets(wish, more):
            missed = plan
            break
        found = more
    return found if missed is None else _between(wish, found, int(missed.concurrency), least)


def _between(wish: Wish, plan: ServingPlan, most: int, least: float) -> ServingPlan:
    """A plan that meets the SLO, with more users that do too, fewer than `most`."""
    fewest = int(plan.concurrency)
    if plan.worth * most / fewest <= least:
        return plan
    while most - fewest > max(fewest // 16, 1):
        users = (fewest + most) // 2
        found = _simulated(wish, replace(plan, concurrency=float(users)))
        if _meets(wish, found):
            plan, fewest = found, users
        else:
            most = users
    return plan


def _meets(wish: Wish, plan: ServingPlan) -> bool:
    return wish.slo.meets(plan.ttft, plan.tpot)


def _simulated(wish: Wish, plan: ServingPlan) -> ServingPlan:
    """A plan with the means of a simulation of its whole number of users."""
    first, *others = plan.services
    decode = others[0] if others else None
    users = max(int(plan.concurrency), 1) * (decode or first).layout.replicas
    work = closed_loop(users, wish.input, wish.output, closed_count(users), first.engine.scatter)
    report = simulated(first, work, decode)
    if report is None:
        return replace(plan, ttft=math.inf, tpot=math.inf)
    return replace(
        plan,
        concurrency=float(max(int(plan.concurrency), 1)),
        ttft=report.ttft.mean,
        tpot=report.tpot.mean if wish.output > 1 else math.nan,
        requests=report.requests_per_second,
    )
