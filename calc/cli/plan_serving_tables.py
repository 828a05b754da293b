"""What `plan MODEL --serve` prints: a record for programs, tables of the front and the best for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from calc.output.layout import continued
from calc.output.tables import Table
from calc.plan.serving_plan import Found, ServingPlan, Wish
from calc.units import duration, speed

SHOWN = 12
"""Plans of the front that a table has."""
NAMED = 3
"""Ways that do not start and that a note names."""
SPARE = ("tok/s/user", "tok/s/GPU")
"""Columns that a narrow terminal does without."""


def answer_record(found: Found, wish: Wish, replicas: int | None) -> dict[str, Any]:
    """The whole answer. replicas: of the best plan, where a rate was asked for."""
    best, nearest = found.best, found.nearest
    return {
        "model": wish.spec.name,
        "best": None if best is None else plan_record(best),
        "nearest": None if nearest is None else plan_record(nearest),
        "simulated": wish.slo.asks,
        "replicas": replicas,
        "front": [plan_record(plan) for plan in found.front],
        "tried": found.tried,
        "layouts": found.layouts,
        "fitting": found.fitting,
        "left_out": [asdict(each) for each in found.left_out],
    }


def plan_record(plan: ServingPlan) -> dict[str, Any]:
    """What scripts read of one plan: its device, layout and load; seconds, and tokens and requests a second."""
    service = plan.services[-1]
    return {
        "device": service.device.name,
        "engine": service.engine.name,
        "dtype": service.form.name,
        "gpus": plan.gpus,
        "layout": " + ".join(map(_layout, plan.services)),
        "batched_tokens": service.budget,
        "concurrency": plan.concurrency,
        "ttft": plan.ttft,
        "tpot": None if math.isnan(plan.tpot) else plan.tpot,
        "tokens_per_gpu": plan.per_gpu,
        "tokens_per_user": None if math.isnan(plan.per_user) else plan.per_user,
        "requests": plan.requests,
        "cost_per_million_output_with_input": plan.cost,
    }


def _layout(service: Any) -> str:
    layout = service.layout
    words = [
        f"tp{layout.tp}",
        f"pp{layout.pp}" * (layout.pp > 1),
        f"dp{layout.attention_dp}" * (layout.attention_dp > 1),
        f"ep{layout.ep}" * (layout.ep > 1),
    ]
    return f"{layout.replicas}x" * (layout.replicas > 1) + "-".join(filter(None, words))


def serving_tables(found: Found, record: dict[str, Any]) -> list[Table]:
    """The front, and below it the best plan, or the nearest where none is good enough."""
    priced = any(plan.cost is not None for plan in found.front)
    columns = ("device", "GPUs", "layout", "format", "users", "ttft", "tpot", "tok/s/GPU", "tok/s/user")
    columns += ("price/M",) * priced
    step = max(1, -(-len(found.front) // SHOWN))
    note = f"{found.tried:,} plans of the {found.fitting} of {found.layouts} layouts that hold the model\n"
    note += "in closed form, as if prompts never came together\n"
    single = any(math.isnan(plan.tpot) for plan in found.front)
    note += f"none beats another in both tok/s/GPU and {'ttft' if single else 'tok/s/user, which is 1 / tpot'}"
    if found.left_out:
        note += f"\n{_left_out(found)}"
    if priced:
        note += "\nprice/M: of a million tokens of answers with their prompts, as serve --price has it"

    def table(plans: Sequence[ServingPlan], title: str, note: str) -> Table:
        return Table(columns, [_row(plan)[: len(columns)] for plan in plans], title, note, SPARE)

    tables = [table(found.front[::step], f"{record['model']}: the front", note)]
    if found.nearest is not None:
        title = "none meets the SLO; the nearest, every request simulated"
        return [*tables, table([found.nearest], title, continued(record["command"] or ""))]
    if found.best is None:  # interrupted, or no layout holds the model
        return tables
    title = "the cheapest" if found.best.cost is not None else "most tokens a GPU"
    if record["simulated"]:
        title += " that meets the SLO, every request simulated"
    more = "" if record["replicas"] is None else for_rate(found.best, record["replicas"])
    note = "\n".join(filter(None, (more, continued(record["command"] or ""))))
    return [*tables, table([found.best], title, note)]


def _left_out(found: Found) -> str:
    """What no engine starts of what was asked for, in a line."""
    names = [f"{each.engine} on {each.device} in {each.dtype}" for each in found.left_out]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"left out, since these do not start: {', '.join(names[:NAMED])}{more}"


def for_rate(plan: ServingPlan, replicas: int) -> str:
    """How many of a plan answer the rate that was asked, on how many GPUs, for how much."""
    gpus = replicas * plan.gpus
    cost = "" if plan.price is None else f", {plan.price * gpus:,.0f} an hour"
    return f"for the rate, with headroom, {replicas:,} of it: {gpus:,} GPUs{cost}"


def _row(plan: ServingPlan) -> tuple[str, ...]:
    own = plan_record(plan)
    return (
        own["device"],
        f"{plan.gpus}",
        own["layout"],
        own["dtype"],
        f"{max(int(plan.concurrency), 1):,}",
        duration(plan.ttft),
        "–" if own["tpot"] is None else duration(plan.tpot),
        speed(plan.per_gpu),
        "–" if own["tokens_per_user"] is None else speed(plan.per_user),
        "–" if plan.cost is None else f"{plan.cost:,.3g}",
    )
