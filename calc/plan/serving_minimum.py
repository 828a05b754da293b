"""What would be the least that serves, where no layout holds the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calc.errors import Refused
from calc.plan.serving import services_of
from calc.plan.serving_plan import Wish
from calc.serve.capacity import cached_bytes
from calc.serve.formats import served_format
from calc.serve.service import Service
from calc.units import binary

DOUBLINGS = 7
"""How often the number of GPUs is doubled to see whether so many are enough."""
NARROWER = ("fp8", "int4:g128")
"""Formats of fewer bits that are tried, the widest first."""
NARROWER_GGUF = ("q8_0", "q4_k_m")
"""The same of engines that read GGUF files."""


def least_that_serves(wish: Wish) -> str:
    """One line: what a GPU of the layout that lacks the least would have to hold, and what would hold the model.

    Errors: Refused as `search_serving` does.
    """
    services = list(services_of(wish))
    nearest = max(services, key=lambda each: each.room - _one_request(wish, each))
    held, gpus = nearest.rank.held, nearest.layout.gpus
    weights = f"the weights of {wish.spec.name} in {nearest.form.name} take {binary(int(held))}"
    where = f"on {'each of ' * (gpus > 1)}{gpus} {nearest.device.name}"
    cache = f"a request's cache {binary(int(_one_request(wish, nearest)))}"
    there = f"{nearest.engine.name} may use {binary(int(held + nearest.room))}"
    return f"nothing fits: {weights} {where} and {cache}, where {there}; {_enough(wish, services)}"


def _enough(wish: Wish, services: Sequence[Service]) -> str:
    """How many GPUs of a server would be enough, and which format on those that were asked for."""
    knobs = []
    if gpus := _gpus(wish):
        knobs.append(f"--gpus {gpus}")
    if form := _format(wish, services):
        knobs.append(f"--dtype {form}")
    if not knobs:
        return "neither more GPUs nor a format of fewer bits is enough: shorter requests or a larger device would be"
    return f"{' or '.join(knobs)} would be enough"


def _gpus(wish: Wish) -> int | None:
    """Of twice, four times … as many GPUs, the fewest on which a layout holds the model; None where none does."""
    gpus = wish.gpus[1]
    for _ in range(DOUBLINGS):
        gpus *= 2
        if _holds(replace(wish, gpus=(gpus, gpus))):
            return gpus
    return None


def _format(wish: Wish, services: Sequence[Service]) -> str | None:
    """The widest format of fewer bits than were asked for in which a layout holds the model."""
    engines = {service.engine.name for service in services}
    names = NARROWER_GGUF if all(name.startswith("llama.cpp") for name in engines) else NARROWER
    least = min(service.form.bits for service in services)
    narrower = (name for name in names if served_format(name).bits < least)
    return next((name for name in narrower if _holds(replace(wish, dtypes=(name,)))), None)


def _holds(wish: Wish) -> bool:
    try:
        return any(each.running(wish.input, wish.output) >= 1 for each in services_of(wish))
    except Refused:
        return False


def _one_request(wish: Wish, service: Service) -> float:
    """Bytes of one GPU for the cache of one request at its end."""
    return cached_bytes(service.rank, service.engine, wish.input + wish.output)
