"""A machine that no catalogue has: its measured profile as the rates of a server."""

from __future__ import annotations

from dataclasses import dataclass

from calc.errors import Refused
from calc.serve.rates import host_of
from calc.serve.step import Rates
from calc.time import kernel_seconds, matmul, pass_over, speed_of
from calc.time.device.profile import Profile

PRODUCT = 1024
"""Sides of the square product whose rate stands for all."""
PASSED = 2**24
"""Elements of the pass whose bandwidth stands for all."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a server needs to know of a device, which is alone. usable: bytes for weights and cache."""

    name: str
    usable: int


def machine_rates(profile: Profile, dtype: str, engine: str) -> Rates:
    """The rates of one rank on a machine whose profile was measured: products, passes and launches as they ran there,
    the host's overheads as the engine's constants say. Errors: Refused for a format that was not measured."""
    speed = speed_of(profile)
    product = matmul(PRODUCT, PRODUCT, PRODUCT, dtype)
    one_pass = pass_over("add", PASSED, dtype)
    rate = product.flops / kernel_seconds(speed, product, "graph").seconds
    bandwidth = one_pass.bytes / kernel_seconds(speed, one_pass, "graph").seconds
    if speed.launch is None:
        raise Refused("--profile", "a profile with the time of a launch", profile.name)
    return Rates(
        narrow=rate,
        wide=rate,
        grouped=rate,
        streaming=bandwidth,
        experts=bandwidth,
        tile=0.0,
        sorting=0.0,
        cache=bandwidth,
        decoding=rate,
        prompts=rate,
        pass_rate=bandwidth,
        kernel=speed.launch.eager,
        eager=0.0,
        quantise=0.0,
        routing=0.0,
        link=bandwidth,
        latency=0.0,
        wide_link=bandwidth,
        wide_latency=0.0,
        stage_link=bandwidth,
        stage_latency=0.0,
        **host_of(engine)._asdict(),
        skew=0.0,
        evenness=1.0,
    )
