"""What a search for ways to serve finds, as plain values: for the pages that show it."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

import streamlit as st

from calc.cli.plan_serving_tables import plan_record
from calc.plan.serving import search_serving
from calc.plan.serving_plan import ServingPlan, Slo, Wish
from calc.spec import ModelSpec
from dashboard import knobs
from dashboard.cache import cached
from dashboard.shared import share

INPUT, OUTPUT = 1024, 256
"""Usual tokens of a prompt and of an answer."""
WANTED = 50
"""Usual tokens a second that one user is to see."""
RATES = (5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500)
MOST_RATE = 10_000
LENGTHS = tuple(2**power for power in range(5, 18))
"""Tokens of prompts and answers that a slider stops at."""
MOST_GPUS = 8
"""Of one server."""


class Wanted(NamedTuple):
    """What is asked of servers. per_user: tokens a second that one user is to see. price: of a GPU-hour."""

    devices: tuple[str, ...]
    input: int = INPUT
    output: int = OUTPUT
    per_user: int = WANTED
    dtypes: tuple[str, ...] = ("bf16",)
    price: float = knobs.PRICE

    @property
    def tpot(self) -> float:
        """Seconds between tokens, in whole tenths of a millisecond, as the command line is told."""
        return round(1e4 / self.per_user) / 1e4

    def command(self, reference: str) -> str:
        """The same on the command line."""
        words = ["plan", reference, "--serve", "--on", ",".join(self.devices), "--gpus", f"1..{MOST_GPUS}"]
        words += ["--input", str(self.input), "--output", str(self.output), "--slo", f"tpot={self.tpot * 1e3:.4g}ms"]
        words += ["--dtype", ",".join(self.dtypes)]
        return f"python -m calc {shlex.join([*words, '--price', f'{self.price:g}/h'])}"


def per_user() -> int:
    """Draw the knob of what one user is to see, in tokens a second."""
    rates = knobs.holding("fast", RATES, MOST_RATE)
    share("fast", rates, WANTED)
    return int(st.select_slider("Tokens a second for a user", rates, WANTED, key="fast", bind="query-params"))


@cached
def found(spec: ModelSpec, wanted: Wanted) -> dict[str, Any]:
    """best: the plan that meets it, None where none does; nearest: then the fastest, None where none holds the model;
    front: of each device in each format.

    Plans are records as the command line prints them. Errors: Refused where no layout divides the model.
    """
    every = [search_serving(_wish(spec, wanted, name, dtype)) for name in wanted.devices for dtype in wanted.dtypes]
    bests = [each.best for each in every if each.best is not None]
    best = max(bests, key=lambda plan: plan.per_gpu, default=None)
    slower = [each.nearest for each in every if each.nearest is not None]
    nearest = max(slower, key=lambda plan: plan.per_user, default=None) if best is None else None
    return {
        "best": None if best is None else plan_record(best),
        "nearest": None if nearest is None else plan_record(nearest),
        "front": [plan_record(plan) | _limit(plan, wanted) for each in every for plan in each.front],
    }


def _wish(spec: ModelSpec, wanted: Wanted, device: str, dtype: str) -> Wish:
    slo = Slo(tpot=wanted.tpot)
    sizes = ((1, MOST_GPUS), wanted.input, wanted.output)
    return Wish(spec, [device], *sizes, slo, dtypes=(dtype,), prices={device: wanted.price})


def _limit(plan: ServingPlan, wanted: Wanted) -> dict[str, Any]:
    """most: users at once that a server of the plan can have. full: whether memory is what keeps it from more."""
    service = plan.services[-1]
    most = service.running(wanted.input, wanted.output)
    return {"most": most, "full": most < service.max_running * service.layout.attention_dp}
