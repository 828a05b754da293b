"""What engines run on: no server is answered for, or planned, that its engine would not start."""

from __future__ import annotations

from collections.abc import Collection

from calc.errors import Refused
from calc.serve.constants import fitted_engines
from calc.serve.rates import is_known
from calc.spec.hardware import Device
from calc.spec.run.engines import Engine, engine_named


def check_support(engine: Engine, device: Device) -> None:
    """Errors: Refused for a device that the engine does not run on, with the engines that do."""
    if not _runs(engine, device):
        others = [name for name in fitted_engines() if _runs(engine_named(name), device) and is_known(device, name)]
        if not others:
            raise Refused("--gpu", f"a device that {engine.name} runs on", device.name)
        raise Refused("--engine", f"one that runs on {device.name}: {', '.join(others)}", engine.name)


def _runs(engine: Engine, device: Device) -> bool:
    return engine.runs is None or _among(device, engine.runs.on)


def _among(device: Device, names: Collection[str]) -> bool:
    """Whether a device is of one of the makers or architectures."""
    return device.vendor in names or device.architecture.startswith(tuple(names))
