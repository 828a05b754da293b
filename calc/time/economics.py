"""What a whole run costs: steps, days, GPU-hours, money, energy, and what failures take."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.memory.sharding import stages
from calc.memory.states import states
from calc.reading.files import parse_toml, read_text
from calc.sizes import ceil_div
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import Run
from calc.time.step.prediction import Prediction
from calc.units import parse_rate

FAILURES = Path(__file__).parents[1] / "data" / "failures.toml"


@cache
def failures() -> dict[str, Any]:
    """The tables of calc/data/failures.toml."""
    return parse_toml(read_text(FAILURES), FAILURES.name)


class Economics(NamedTuple):
    """A whole run. days, gpu_hours, money, energy: as predicted, and (low, high) at the ends of the step's interval.

    steps: of a run over so many `tokens`. money: in the currency of the price; None where no price was said. energy:
    kWh of all boards at their limit, times PUE; None where the board's power is not known. goodput: the part of the
    days that steps take, the rest being checkpoints, lost work and restarts. checkpoint: its bytes, written each
    `interval` seconds. failures: expected.
    """

    tokens: int
    steps: int
    days: float
    days_between: tuple[float, float]
    gpu_hours: float
    gpu_hours_between: tuple[float, float]
    money: float | None
    money_between: tuple[float, float] | None
    energy: float | None
    goodput: float
    checkpoint: float
    interval: float
    failures: float


def economics(
    spec: ModelSpec,
    it: Prediction,
    device: Device | None,
    *,
    tokens: int,
    price: float | None = None,
    mtbf: float | None = None,
    restart: float | None = None,
    pue: float | None = None,
) -> Economics:
    """The costs of training on `tokens` tokens with steps as predicted.

    price: of a GPU-hour. mtbf: hours of one GPU between failures, restart: seconds until training goes on after one,
    pue: of the data centre; None: as calc/data/failures.toml has them.
    Errors: Refused for a prediction of anything but a step of training.
    """
    if not it.run.trains:
        raise Refused("tokens", "a step of training, of which a run is made", it.phase)
    table = failures()
    between = 3600 * (table["gpu"]["hours"] if mtbf is None else mtbf) / it.gpus
    down = table["restart"]["seconds"] if restart is None else restart
    size = checkpoint_bytes(spec, it.run)
    write = size / (parse_rate(table["storage"]["rate"], "rate") * it.gpus)
    goodput, interval = best_interval(write, between, down)
    steps = int(ceil_div(tokens, it.tokens))
    seconds = [steps * each / goodput for each in (it.seconds, it.interval.low, it.interval.high)]
    days = [each / 86400 for each in seconds]
    hours = [each / 3600 * it.gpus for each in seconds]
    power = None if device is None or device.power is None else device.power.value
    effective = table["power"]["pue"] if pue is None else pue
    return Economics(
        tokens=tokens,
        steps=steps,
        days=days[0],
        days_between=(days[1], days[2]),
        gpu_hours=hours[0],
        gpu_hours_between=(hours[1], hours[2]),
        money=None if price is None else hours[0] * price,
        money_between=None if price is None else (hours[1] * price, hours[2] * price),
        energy=None if power is None else hours[0] * power / 1000 * effective,
        goodput=goodput,
        checkpoint=size,
        interval=interval,
        failures=seconds[0] / between,
    )


def checkpoint_bytes(spec: ModelSpec, run: Run) -> float:
    """Bytes of weights and of all that the optimizer keeps, once, however many ranks hold them."""
    alone = run.changed(dp=1, tp=1, pp=1, cp=1, ep=1, zero=0, interleave=1, stages=None, shard=None, offload="none")
    (held,) = states(spec, alone, stages(spec, alone))
    return float(held.weights + held.optimizer)


def best_interval(write: float, between: float, restart: float) -> tuple[float, float]:
    """(the part of the time that steps take, seconds of steps between two checkpoints that make it the largest).

    write: seconds of a checkpoint. between: seconds between failures of the whole machine, whose gaps are taken to be
    exponential. The interval is Daly's (2006, Future Generation Computer Systems 22, equation 37), whose first term is
    Young's (1974); the share is the inverse of Daly's expected time (equation 20).
    """
    if write >= 2 * between:
        interval = between
    else:
        small = math.sqrt(write / (2 * between))
        interval = math.sqrt(2 * write * between) * (1 + small / 3 + small**2 / 9) - write
    interval = max(interval, write)
    longer = between * math.exp(restart / between) * math.expm1((interval + write) / between) / interval
    return 1 / longer, interval
