"""`plan --model-grid`: shapes of a family under a budget."""

from __future__ import annotations

from typing import Any

from calc.cli.plan_tables import UNTIL_THEN, end_as
from calc.errors import Refused
from calc.output.progress import Progress
from calc.output.tables import Table, emit
from calc.plan.answer import record_of
from calc.plan.grid import Grid, search_grid
from calc.plan.question import Question, short
from calc.units import duration, parse_tokens, si
from calc.workers.workers import Workers

MOST_VALUES = 256
FIELD = "--model-grid"


def axes_of(text: str, field: str = FIELD) -> dict[str, list[int]]:
    """Size -> values of d_model=4096..8192:512,n_layers=32,40: a range with its step, or values after one another."""
    found: dict[str, list[int]] = {}
    name = ""
    for part in text.split(","):
        before, equals, values = part.partition("=")
        name, values = (before.strip(), values) if equals else (name, part)
        if not name:
            raise Refused(field, "size=values, such as d_model=4096..8192:512,n_layers=32,40", text[:60])
        found.setdefault(name, []).extend(_values(values, field))
    return found


def _values(text: str, field: str) -> list[int]:
    low, dots, rest = text.partition("..")
    if not dots:
        return [parse_tokens(text, field, 1)]
    high, _, step = rest.partition(":")
    first, last, by = parse_tokens(low, field, 1), parse_tokens(high, field, 1), parse_tokens(step or "1", field, 1)
    if first > last or (last - first) // by >= MOST_VALUES:
        raise Refused(field, f"a range upwards of at most {MOST_VALUES} values", text)
    return list(range(first, last + 1, by))


def print_grid(
    question: Question,
    text: str,
    law: str,
    budget: dict[str, Any],
    progress: Progress,
    workers: Workers,
    fmt: str,
) -> None:
    """Print every shape with its plan."""
    if budget["most_params"] is None and budget["flops"] is None:
        raise Refused(FIELD, "--params or --flops beside it, the budget", "none")
    found = search_grid(question, axes_of(text), law, **budget, progress=progress, workers=workers)
    progress.close()
    emit([_record(found, place) for place in range(len(found.shapes))], [_table(found, question, law)], fmt)
    end_as(found.interrupted)


def _record(found: Grid, place: int) -> dict[str, Any]:
    each = found.shapes[place]
    own = {"rank": place + 1, "sizes": dict(each.sizes), "params": each.params, "loss": each.loss, "days": each.days}
    return own | {"best": None if each.plan is None else record_of(each.plan, each.plan)}


def _table(found: Grid, question: Question, law: str) -> Table:
    rows = []
    for each in found.shapes:
        sizes = " ".join(f"{name}={size}" for name, size in each.sizes.items())
        plan = each.plan
        cells = ("none fits", "–", "–") if plan is None else (short(plan.run), duration(plan.seconds), _mfu(plan))
        loss = "–" if each.loss is None else f"{each.loss:.4f}"
        rows.append((sizes, si(each.params), *cells, "–" if each.days is None else f"{each.days:,.1f}", loss))
    left = ", ".join(f"{count:,} {why}" for why, count in found.ruled.items() if count)
    columns = ("shape", "parameters", "plan", "step", "MFU", "days", f"loss by {law}")
    title = f"shapes of {question.spec.name}" + f"; {UNTIL_THEN}" * found.interrupted
    return Table(columns, rows, title, f"not planned: {left}" if left else "")


def _mfu(plan: Any) -> str:
    return "–" if plan.prediction.mfu is None else f"{plan.prediction.mfu:.1%}"
