"""How fast a device is by name, from the best that is known of it: its profile, its relatives', or its datasheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from calc.errors import Refused
from calc.spec.cache_key import CacheKey
from calc.spec.catalogue import device_names, load_device
from calc.spec.hardware import Device
from calc.time.device.profile import PROFILES, STACKS, Profile, profile_named, shipped_devices, shipped_profile
from calc.time.device.relatives import relatives_of
from calc.time.device.speed import TABLES, Speed, from_device, from_profile, from_relatives


def speed_of(where: Speed | Profile | Device | str) -> Speed:
    """The speed of what `where` is or names: a profile, a device, a shipped profile, a device of the catalogue.

    A device is as fast as a shipped profile of it says, else as one of its architecture, else as its datasheet.
    Errors: Refused for an unknown name.
    """
    if isinstance(where, Speed):
        return where
    if isinstance(where, Profile):
        return _of_profile(CacheKey(where))
    if isinstance(where, Device):
        known = where.name in device_names() and load_device(where.name) == where
        return on_stack(where.name) if known else from_device(where)
    return _named(where)


@lru_cache(maxsize=8)
def _of_profile(profile: CacheKey[Profile]) -> Speed:
    """One Speed for each profile, so that what was asked of it stays known."""
    return from_profile(profile.value)


@cache
def _named(name: str) -> Speed:
    if name.endswith(".json"):
        return from_profile(profile_named(name))
    try:
        return on_stack(load_device(name).name)
    except Refused:
        if (PROFILES / f"{name}.json").is_file():
            return from_profile(profile_named(name))
        raise


@cache
def on_stack(name: str, stack: str = STACKS[0]) -> Speed:
    """What is best known of a device of the catalogue, measured on it, on its relatives, or published; what was not
    measured under one of `STACKS` is that of the others. Errors: Refused for an unknown device or stack."""
    if stack not in STACKS:
        raise Refused("stack", f"one of {', '.join(STACKS)}", stack)
    own = _measured(name, stack)
    if own is not None:
        return own
    device = load_device(name)
    measured = ((_measured(each, stack), weight) for each, weight in relatives_of(device, shipped_devices()).items())
    found = [(speed, weight) for speed, weight in measured if speed is not None]
    return from_relatives(found, device) if found else from_device(device)


@cache
def _measured(name: str, stack: str) -> Speed | None:
    """What shipped profiles say of a device: those of one stack, and what it lacks from the others."""
    order = (stack, *(one for one in STACKS if one != stack))
    found = [from_profile(one) for one in (shipped_profile(name, each) for each in order) if one is not None]
    if not found:
        return None
    tables = {name: _joined([getattr(one, name) for one in found], TINY.get(name)) for name in TABLES}
    return replace(found[0], **tables)


TINY = {"gemm": (1, 256, 256), "attention": (1, 8, 8, 16), "decode": (1, 8, 1, 16)}
"""Arguments of `seconds` for next to no work, by table; what experts take to start is a handful of kernels, more or
fewer by library, and tells nothing."""
HELD_UP = 2.0
"""Times the start of another stack's kernel from which on a measured start is taken for the host's launching: tables
hold products whose quantization was launched from Python, 12 us at least in fp8 and up to 400 us in blocks, beside 5 us
for the same in a graph. A step's model knows what launching costs; its kernels must not hold it again."""


def _joined(tables: Sequence[Mapping[str, Any]], tiny: tuple[int, ...] | None) -> dict[str, Any]:
    """Everything that any of the tables has: the first that has it, or, of kernels whose starts can be compared, the
    first whose start is not the host's."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        models = [table[name] for table in tables if name in table]
        starts = [model.seconds(*tiny) if tiny and len(models) > 1 else 0.0 for model in models]
        found[name] = next(model for model, start in zip(models, starts, strict=True) if start <= HELD_UP * min(starts))
    return found


def starts_at_once(speed: Speed, name: str, plain: str) -> bool:
    """Whether products of format `name` start about as fast as those of `plain`, so that a time is the device's."""
    if name not in speed.gemm or plain not in speed.gemm:
        return name in speed.gemm
    start, usual = (speed.gemm[each].seconds(*TINY["gemm"]) for each in (name, plain))
    return start <= HELD_UP * usual
