"""`search_plans`: from a question in words to the plans that answer it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from calc.blocks.build import vectors_read
from calc.errors import Refused
from calc.memory.totals import most_needed, training_ranks
from calc.plan.answer import Answer, Plan, plainest
from calc.plan.leaders import at, best_first, fronts, no_copies, shown
from calc.plan.objective import Objective, weight_of
from calc.plan.question import Question, sequences_of
from calc.plan.search import Seen, runs_of, search
from calc.spec import ModelSpec
from calc.spec.cluster import Cluster
from calc.spec.model import check_model
from calc.time import predict
from calc.workers.job import Progress
from calc.workers.stopping import stoppable
from calc.workers.workers import HERE, Workers

TOP = 10
STEP = 0.02
"""Part of its memory by which a plan on a front is to hold less than the one before it to be shown."""


def search_plans(
    spec: ModelSpec,
    cluster: str | Cluster,
    gpus: int | Sequence[int],
    seq: int,
    global_batch: int,
    *,
    recipes: Sequence[str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    at_most: Mapping[str, int] | None = None,
    headroom: float = 0.0,
    objective: Objective = "time",
    price: float | None = None,
    top: int = TOP,
    progress: Progress | None = None,
    workers: Workers = HERE,
    every: bool = False,
    **words: Any,
) -> Answer:
    """The best plans to train a model on so many GPUs of a cluster.

    gpus: one number, or several that are compared. seq: tokens of a sequence; pictures, and what else has a length of
    its own, keep it. global_batch: tokens of a step, or vectors, taken to the nearest whole number of sequences.
    recipes: number formats to choose among, by default the stack's. fixed, at_most: sizes and words by their names in a
    Run. headroom: part of a GPU's memory that is to stay free. price: of a GPU-hour. workers: who searches, with the
    same answer. every: with a folder of theirs, whether all plans that fit are kept in it, and not only those that an
    answer can need. words: what else a Run says: stack, execution, optimizer, number formats.
    Errors: Refused for what no plan can change.
    """
    check_model(spec)
    seq = int(vectors_read(spec, seq))
    question = Question.about(
        spec,
        cluster,
        gpus,
        seq,
        sequences_of(global_batch, seq),
        recipes=recipes or (),
        words=words,
        fixed=dict(fixed or {}),
        at_most=dict(at_most or {}),
        headroom=headroom,
        price=price,
    )
    return answer([question], objective, top, progress, workers, every)


def answer(
    questions: Sequence[Question],
    objective: Objective = "time",
    top: int = TOP,
    progress: Progress | None = None,
    workers: Workers = HERE,
    every: bool = False,
) -> Answer:
    """The best plans of several questions together: of one model on several clusters, or of several models.

    Where none fits, those that keep the optimizer on the host are looked at too, if stack and cluster allow it.
    workers, every: as for `search_plans`. Errors: as `search_plans`, and Refused for fewer than one plan.
    """
    if top < 1:
        raise Refused("--top", "at least 1", top)
    plans: list[Plan] = []
    seen: list[tuple[Question, Seen]] = []
    for question in questions:
        weight_of(question, objective, 1)
        each = search(question, top, objective, progress, workers, every)
        seen.append((question, each))
        plans += _timed_alone(question, each, top)
        if each.interrupted:
            break
    # A kept folder is of one search. What no room on a GPU lacks, none on the host mends.
    lacks_room = not plans and any(each.ruled["memory"] for _, each in seen)
    if lacks_room and workers.keep is None and not any(each.interrupted for _, each in seen):
        for question in filter(None, map(with_offload, questions)):
            each = search(question, top, objective, progress, workers, every)
            seen.append((question, each))
            plans += _timed_alone(question, each, top)
            if each.interrupted:
                break
    plans.sort(key=lambda plan: (plan.value, plan.parts, plan.peak))
    least = [found for question, each in seen for found in _least(question, each)]
    return Answer(
        objective=objective,
        plans=tuple(plans[:top]),
        unlike=tuple([plan for plan in plans if not plan.copy][:top]),
        front=_thinned([plan for plan in plans if plan.on_front]),
        by_gpus=_by_gpus(plans),
        plainest=plainest(plans),
        listed=sum(each.plans for _, each in seen),
        timed=sum(each.timed for _, each in seen),
        ruled=sum((each.ruled for _, each in seen), Counter()),
        least=min(least, key=lambda found: found[0], default=None),
        unread=tuple(dict.fromkeys(line for _, each in seen for line in each.unread)),
        interrupted=any(each.interrupted for _, each in seen),
    )


def with_offload(question: Question) -> Question | None:
    """The same with the optimizer on the host, where nothing is said of that and all that is said allows it."""
    can = question.launcher.takes("offload", "optimizer") and question.cluster.host is not None
    if "offload" in question.fixed or not can:
        return None
    with suppress(Refused):
        return replace(question, fixed={**question.fixed, "offload": "optimizer"})
    return None


def _timed_alone(question: Question, seen: Seen, top: int) -> list[Plan]:
    """What a search kept, as plans. Ctrl-C waits for them, so that none is lost; the second of them does not."""
    if seen.interrupted:
        return list(_plans(question, seen, top))
    with stoppable() as stopped:
        found = list(_plans(question, seen, top))
    seen.interrupted = stopped.is_set()
    return found


def _plans(question: Question, seen: Seen, top: int) -> Iterator[Plan]:
    """What a search kept, each plan timed and weighed alone as `predict` and `memory` do."""
    if not seen.rows:
        return
    order = best_first(seen.rows)
    rows = at(seen.rows, order[shown(at(seen.rows, order), top)])
    undominated, kinds = set(fronts(rows)), set(no_copies(rows))
    for place, run in enumerate(runs_of(question, seen, rows)):
        needs = most_needed(training_ranks(question.spec, run))
        yield Plan(
            question=question,
            run=run,
            prediction=predict(question.spec, question.device, run),
            peak=int(needs.peak),
            reserved=int(needs.reserved),
            host=int(needs.host),
            host_at_most=int(needs.host_at_most),
            value=float(rows["value"][place]),
            on_front=place in undominated,
            parts=float(rows["parts"][place]),
            copy=place not in kinds,
        )


def _thinned(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Of a front, on each number of GPUs, the plans that hold less than the one before by a part worth having."""
    found: list[Plan] = []
    least: dict[tuple[str, int], float] = {}
    for plan in plans:
        key = plan.question.cluster.name, plan.run.gpus
        if plan.peak <= least.get(key, float("inf")) * (1 - STEP):
            least[key] = plan.peak
            found.append(plan)
    return tuple(found)


def _by_gpus(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """The best plan on each number of GPUs of each cluster, the fewest GPUs first."""
    best: dict[tuple[str, int], Plan] = {}
    for plan in plans:
        best.setdefault((plan.question.cluster.name, plan.run.gpus), plan)
    return tuple(sorted(best.values(), key=lambda plan: (plan.run.gpus, plan.value)))


def _least(question: Question, seen: Seen) -> Iterator[tuple[int, Any]]:
    """(bytes, run) of the plan that reserves the least, where any plan divides the model."""
    if seen.least:
        yield int(seen.least["reserved"][0]), next(runs_of(question, seen, seen.least))
