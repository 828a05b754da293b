"""What engines run on and load: no server is answered for, or planned, that its engine would not start."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from calc.errors import Refused
from calc.serve.constants import fitted_engines
from calc.serve.formats import Format
from calc.serve.rates import is_known
from calc.spec.hardware import Device
from calc.spec.run.engines import Engine, engine_named


def check_support(engine: Engine, device: Device, form: Format, cache: str) -> None:
    """Errors: Refused for a device that the engine does not run on, with the engines that do, and for a format that it
    does not load there, with those that it does."""
    if engine.runs is None:
        return
    if not _runs(engine, device):
        others = [name for name in fitted_engines() if _runs(engine_named(name), device) and is_known(device, name)]
        if not others:
            raise Refused("--gpu", f"a device that {engine.name} runs on", device.name)
        raise Refused("--engine", f"one that runs on {device.name}: {', '.join(others)}", engine.name)
    there = f"the formats of {engine.name} on {device.name}"
    if form.kind not in (weights := _loaded(engine.runs.weights, device)):
        raise Refused("--dtype", f"one of {', '.join(map(_named, weights))}, {there}", form.name)
    if cache not in (caches := _loaded(engine.runs.caches, device)):
        raise Refused("--cache-dtype", f"one of {', '.join(caches)}, {there}", cache)


def default_cache(engine: Engine, form: Format) -> str:
    """The format of keys and values where nobody says: the engine's own beside weights of 8 bits or fewer."""
    return engine.cache if form.bits <= 9 else "bf16"


def _runs(engine: Engine, device: Device) -> bool:
    return engine.runs is None or _among(device, engine.runs.on)


def _loaded(formats: Mapping[str, Collection[str]], device: Device) -> list[str]:
    return [name for name, devices in formats.items() if not devices or _among(device, devices)]


def _named(kind: str) -> str:
    """A kind of formats as `--dtype` has them."""
    if kind == "gguf":
        return "those of GGUF files (q4_k_m, q8_0, gguf:B …)"
    return f"{kind}N" if kind.endswith(":g") else kind


def _among(device: Device, names: Collection[str]) -> bool:
    """Whether a device is of one of the makers or architectures."""
    return device.vendor in names or device.architecture.startswith(tuple(names))
