"""What `plan` prints: the best plans, the fronts, and what was ruled out."""

from __future__ import annotations

import sys

from calc.output.layout import continued
from calc.output.notes import remark
from calc.output.tables import Table
from calc.plan.answer import Answer, Plan, costs, difference, tied
from calc.plan.checks import in_words
from calc.plan.command import predict_command
from calc.plan.objective import Objective
from calc.plan.question import short
from calc.units import binary, duration, four, si

SHOWN_OF_FRONT = 8
LEAST = {"time": (), "cost": ("step cost",), "energy": ("step kWh",)}
"""Objective -> the column of a table that says it."""
JOULES_OF_KWH = 3.6e6
UNTIL_THEN = "interrupted: these are the best until then"


def tables(found: Answer, tokens: float | None) -> list[Table]:
    """The answer, the best plans first."""
    named = Naming(found)
    made = [_best(found, named, tokens), _ranked(found, named), _front(found, named)]
    if len(found.by_gpus) > 1:
        made.append(_by_gpus(found, named, tokens))
    made.append(ruled_out(found))
    return made


class Naming:
    """How plans are told apart: GPUs, cluster and recipe are said where there are several.

    columns: what is said of each. unit: of what goes in, rate: of it in a second.
    """

    def __init__(self, found: Answer) -> None:
        shown = [*found.plans, *found.unlike, *found.front, *found.by_gpus]
        self.clusters = len({plan.question.cluster.name for plan in shown}) > 1
        self.gpus = len({plan.run.gpus for plan in shown}) > 1
        self.models = len({plan.prediction.model for plan in shown}) > 1
        self.recipes = len({plan.run.recipe for plan in shown}) > 1
        self.unit = found.plans[0].question.spec.unit
        self.rate = f"{self.unit}/s"
        self.columns = ("plan", "step", self.rate, "MFU", "peak")

    def __call__(self, plan: Plan) -> str:
        parts = [f"{plan.run.gpus}"] * (self.gpus or self.clusters) + [plan.question.cluster.name] * self.clusters
        before = f"{'×'.join(parts)}: " if parts else ""
        after = f" {plan.run.recipe}" * self.recipes + f" {plan.prediction.model}" * self.models
        return f"{before}{short(plan.run)}{after}"


def _best(found: Answer, named: Naming, tokens: float | None) -> Table:
    best, it = found.plans[0], found.plans[0].prediction
    between, left = f"{duration(it.interval.low)} to {duration(it.interval.high)}", binary(best.room)
    rows = [
        ("plan", f"{named(best)}{f', {best.run.recipe}' * (not named.recipes)}, {best.run.execution}"),
        ("step", f"{duration(it.seconds)}; {it.interval.level:.0%} of measurements: {between}"),
        (named.rate, f"{it.tokens_per_second:,.0f}, {it.tokens_per_second / it.gpus:,.0f} a GPU"),
        ("MFU", "–" if it.mfu is None else f"{it.mfu:.1%} ({it.mfu_counting})"),
        ("peak", f"{binary(best.peak)}; reserved {binary(best.reserved)}, {left} left beside CUDA's context"),
    ]
    rows += [(_words(name), four(value)) for name, value in costs(best, tokens).items()]
    if len(found.unlike) > 1:
        rows.append(("over the next", difference(best, found.unlike[1])))
    if found.plainest is not None and found.plainest is not best:
        plain = found.plainest
        longer = plain.value / best.value - 1
        rows.append(("plainest tie", f"{named(plain)}: {longer:.1%} more, within the interval"))
    rows += [("note", text) for text in it.notes[:2]]
    question = best.question
    step = f"{question.sequences:,} × {question.seq:,} {named.unit} a step"
    title = f"{it.model}: {step} on {it.gpus:,} GPU{'s' * (it.gpus > 1)} of {question.cluster.name}"
    command = predict_command(question, best.run) or ""
    return Table(("", ""), rows, title, continued(command.removesuffix(" --json")))


def _ranked(found: Answer, named: Naming) -> Table:
    best = found.plans[0]
    rows = [
        (f"{place}{'=' * tied(plan, best)}", *_row(plan, named), *_least(plan, found.objective))
        for place, plan in enumerate(found.unlike, 1)
    ]
    copies = "each the best of those that differ in micro-batch or pieces of stages (v) alone; --json has each by rank"
    note = f"=: a tie with the first, whose interval does not tell them apart\n{copies}"
    return Table(("", *named.columns, *LEAST[found.objective]), rows, "", note)


def _least(plan: Plan, objective: Objective) -> tuple[str, ...]:
    """What the best plan has the least of, where that is not its time."""
    if objective == "time":
        return ()
    return (four(plan.value if objective == "cost" else plan.value / JOULES_OF_KWH),)


def _front(found: Answer, named: Naming) -> Table:
    rows = [_row(plan, named) for plan in found.front[:SHOWN_OF_FRONT]]
    left = len(found.front) - len(rows)
    more = f"; {left} more hold less and take longer" if left > 0 else ""
    note = f"no plan of as many GPUs beats these in both{more}"
    return Table(named.columns, rows, "less memory for more time", note, spare=(named.rate,))


def _by_gpus(found: Answer, named: Naming, tokens: float | None) -> Table:
    priced = [costs(plan, tokens) for plan in found.by_gpus]
    names = list(priced[0]) if all(priced) else []
    rows = [
        (*_row(plan, named), *(four(cost[name]) for name in names))
        for plan, cost in zip(found.by_gpus, priced, strict=True)
    ]
    return Table((*named.columns, *map(_words, names)), rows, "the best on each number of GPUs", spare=(named.rate,))


def ruled_out(found: Answer) -> Table:
    """How many plans there were, and what ruled them out."""
    rows = [(in_words(reason), f"{count:,}") for reason, count in found.ruled.most_common() if count]
    rows += [(f"not described: {line}", "") for line in found.unread]
    end = f"; {UNTIL_THEN}" if found.interrupted else ""
    return Table(("ruled out", "plans"), rows, f"{found.listed:,} plans, of which {found.timed:,} fit{end}")


def end_as(interrupted: bool) -> None:
    """What ends an answer: nothing, or where the search was interrupted, which no launch file and no record tells, a
    word of it on stderr and status 130."""
    if interrupted:
        remark(UNTIL_THEN)
        sys.exit(130)


def _row(plan: Plan, named: Naming) -> tuple[str, ...]:
    it = plan.prediction
    mfu = "–" if it.mfu is None else f"{it.mfu:.1%}"
    return named(plan), duration(it.seconds), si(it.tokens_per_second), mfu, binary(plan.peak)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("gpu", "GPU").replace(" kwh", ", kWh")
