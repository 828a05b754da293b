"""What would be the least that works, where no plan does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from calc.errors import Refused
from calc.memory.conditions import conditions
from calc.plan.answer import Answer
from calc.plan.checks import REASONS, failed_by_all, in_words, possible
from calc.plan.leaders import at
from calc.plan.planning import with_offload
from calc.plan.question import CONTEXT, MOST_GPUS, SIZES, Question, short
from calc.plan.room import room_of, run_of_rows
from calc.plan.space import Columns, chunks, ranks, structures
from calc.spec.run import Run
from calc.units import binary

DOUBLINGS = 10
"""How often the number of GPUs is doubled to see whether so many are enough."""


def least_that_works(question: Question, found: Answer) -> str:
    """One line for an answer without a plan: why there is none, and the least that would do."""
    if not found.listed:
        return _none_listed(question)
    if found.least is None:
        fewest = _batches(question) if found.ruled.get("global batch") else question.sequences
        if fewest != question.sequences:
            long = f"{fewest * question.seq:,} {question.spec.unit}"
            return f"no plan divides {question.sequences:,} sequences a step; {fewest:,} ({long}) would be"
        return _none_possible(question) or f"no plan can be: {_reasons(found) or REASONS['memory']}"
    reserved, run = found.least
    if reserved > question.budget:
        room = binary(question.device.usable - CONTEXT)
        held = f"the least that a plan reserves is {binary(reserved)} of a GPU's {room} ({short(run)})"
    elif found.ruled["host"]:
        room = binary(question.cluster.host_room(max(question.gpus)) or 0)
        held = f"a machine of {question.cluster.name} has no more than {room} for what each GPU keeps on the host"
    else:
        return f"plans fit, but none has a time: {'; '.join(found.unread) or REASONS['time']}"
    several = [doubled_until_fits(each, max(question.gpus)) for each in (question, with_offload(question)) if each]
    enough = min(filter(None, several), default=None)
    more = f"{enough:,} GPUs would be enough" if enough else "no number of GPUs that was tried is enough"
    return f"nothing fits: {held}; {more}"


def _reasons(found: Answer) -> str:
    """Why plans were ruled out, the most frequent first."""
    return "; ".join(f"{in_words(why)} ({plans:,})" for why, plans in found.ruled.most_common())


def _none_listed(question: Question) -> str:
    """Which of what was asked for no plan has, and of a size those that there are with the rest as asked."""
    for name, wanted in (*question.fixed.items(), *question.at_most.items()):
        if name not in SIZES:
            if next(_listed(_freed(question, name)), None) is not None:
                return f"no plan has {name} {wanted} with the rest as asked"
        elif can := _sizes(_freed(question, name), name):
            return f"no plan has {name} {wanted}: with the rest as asked it can be {can}"
    return "no plan can be: of what was asked for, two exclude each other"


def _none_possible(question: Question) -> str:
    """Which of the sizes that were asked for rules all plans out, why, and what it can be with the rest as asked; empty
    where no size of its own does."""
    for name, wanted in (*question.fixed.items(), *question.at_most.items()):
        if name in SIZES and (can := _sizes(_freed(question, name), name)):
            failed = [failed_by_all(question, run, columns) for run, columns in _listed(question)]
            alone = [reason for reason in failed[0] if all(reason in each for each in failed)] if failed else []
            why = "; ".join(_why(question, reason) for reason in alone)
            return f"no plan has {name} {wanted}{why and f' ({why})'}: with the rest as asked it can be {can}"
    return ""


def _why(question: Question, reason: str) -> str:
    """Why all plans are ruled out; of a stage of ZeRO by which rule, of ranks why the stack has none of their kind."""
    launcher = question.launcher
    if reason == "zero" and (rules := _zero_rules(question)):
        return rules
    of_ranks = reason in ("stack:tp", "stack:pp", "stack:cp", "stack:ep")
    return f"{in_words(reason)}, since {launcher.ranks}" if of_ranks and launcher.ranks else in_words(reason)


def _zero_rules(question: Question) -> str:
    """What stages of ZeRO would have to be, where no plan's is that."""
    run, _ = next(_listed(question))
    rules = (each for each in conditions(question.spec, run) if each.field == "zero" and each.of_rows)
    failed = dict.fromkeys(each.expected for each in rules if not each.test(each.a, each.b).any())
    return "; ".join(f"it is {expected}" for expected in failed)


def _freed(question: Question, name: str) -> Question:
    """The same without what it says of a size or word."""
    kept: dict[str, dict[str, Any]] = {
        kind: {key: value for key, value in getattr(question, kind).items() if key != name}
        for kind in ("fixed", "at_most")
    }
    return replace(question, **kept)


def _listed(question: Question) -> Iterator[tuple[Run, Columns]]:
    """Every plan of kinds that the stack can launch and that are described."""
    for words in structures(question)[0]:
        for gpus in question.gpus:
            for columns in chunks(question, gpus, words):
                with suppress(Refused):
                    yield run_of_rows(question, columns, words), columns


def _sizes(question: Question, name: str) -> str:
    """The sizes of this name that plans have which can be carried out, with commas between them."""
    import numpy as np

    found: set[int] = set()
    for run, columns in _listed(question):
        with suppress(Refused):
            found |= {int(size) for size in np.unique(columns[name][possible(question, run, columns)[0]])}
    return ", ".join(map(str, sorted(found)))


def doubled_until_fits(question: Question, gpus: int) -> int | None:
    """Of twice, four times … as many GPUs, the fewest on which a plan fits; None where none does."""
    most = question.cluster.most or MOST_GPUS
    for _ in range(DOUBLINGS):
        gpus *= 2
        if gpus > most:
            return None
        if fits(replace(question, gpus=(gpus,))):
            return gpus
    return None


def fits(question: Question) -> bool:
    """Whether any plan of the question fits, whatever its time."""
    kinds, _ = structures(question)
    for words in sorted(kinds, key=lambda each: each["checkpointing"] != "full"):
        for gpus in question.gpus:
            for columns in chunks(question, gpus, words):
                try:
                    rows, _ = possible(question, run_of_rows(question, columns, words), columns)
                    room = room_of(question, at(columns, rows), words) if len(rows) else None
                except Refused:
                    continue
                if room is not None and (room.on_gpu & room.on_host).any():
                    return True
    return False


def _batches(question: Question) -> int:
    """The number of sequences nearest to what was asked for that some plan divides, another than that if it is of no
    use to those that divide it."""
    kinds, _ = structures(question)
    every = {
        gpus // (tp * cp * pp)
        for words in kinds
        for gpus in question.gpus
        for tp, cp, pp in ranks(question, gpus, words)
        if question.allows("dp", gpus // (tp * cp * pp))
    }
    fixed = question.fixed.get("batch", 1) * question.fixed.get("micro_batches", 1)
    asked = question.sequences
    nearest = {max(1, round(asked / (dp * fixed))) * dp * fixed for dp in every or {1}}
    return min(nearest - {asked} or nearest, key=lambda n: (abs(n - asked), n))
