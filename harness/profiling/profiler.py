"""A device's speed: what is measured, in which order, for how long, and the profile of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from calc.errors import Refused
from calc.reading.files import write_whole
from calc.spec.fields import DeviceKind
from calc.time.device.profile import Profile
from harness.environment import here
from harness.measuring.allocator import keep_freed_memory, touch
from harness.profiling.fit import profile_of
from harness.profiling.samples import Station, collect, interleaved
from harness.profiling.shapes import REACH, attention_shapes, layers

Progress = Callable[[int, int, float], None]
"""Called with what is done, how much there is, and the seconds that are left."""
SECONDS: dict[DeviceKind, float] = {"cpu": 120.0, "cuda": 240.0}
"""How long a profile may take, fitting included."""
DTYPES: dict[DeviceKind, tuple[str, ...]] = {"cpu": ("fp32", "bf16"), "cuda": ("bf16", "fp32")}
"""What is measured where nothing else is asked for."""
KNOWN = ("fp32", "bf16", "fp16")
_MEASURING = 0.85
"""Part of the time that is spent on measuring; the rest is for setting up and fitting."""
_LONGEST: dict[DeviceKind, float] = {"cpu": 0.03, "cuda": 0.01}
"""Seconds that a single product may take, about."""
_POOL: dict[DeviceKind, int] = {"cpu": 2**26, "cuda": 2**29}
"""Random numbers in each format."""
_TOUCHED = 2**29
"""Bytes of the host that are asked for before anything is measured."""
_LARGER: dict[DeviceKind, int] = {"cpu": 1, "cuda": 16}
"""Times as many elements as on a CPU that passes go up to, and how many sizes of each are measured."""
_SIZES: dict[DeviceKind, int] = {"cpu": 5, "cuda": 9}
_PARAMETERS: dict[DeviceKind, tuple[int, ...]] = {"cpu": (2**16, 2**20, 2**23), "cuda": (2**18, 2**22, 2**26)}


def measure_profile(
    device: DeviceKind | None = None,
    dtypes: Sequence[str] = (),
    seconds: float | None = None,
    threads: int | None = None,
    progress: Progress = lambda done, total, left: None,
) -> Profile:
    """The profile of a device of this machine, measured in `seconds` at most.

    device: CUDA where it is, else the CPU. dtypes: number formats. threads: of a CPU.
    Errors: Refused for a device or a format that is not there, ImportError without torch.
    """
    begun = time.monotonic()
    for name in dtypes:
        if name not in KNOWN:
            raise Refused("--dtypes", f"some of {', '.join(KNOWN)}", name)
    environment = here(device)
    import torch

    from harness.profiling.attention import chosen

    target: DeviceKind = environment.device
    formats = tuple(dtypes) or DTYPES[target]
    if threads is not None:
        torch.set_num_threads(threads)
    if target == "cpu":
        keep_freed_memory()
        touch(_TOUCHED)
    limit = SECONDS[target] if seconds is None else seconds
    stations = list(_stations(target, formats))
    samples = collect(interleaved(*stations), _MEASURING * limit - (time.monotonic() - begun), progress)
    found = {"threads": torch.get_num_threads(), "kept_memory": target == "cpu", **_versions(environment)}
    found["sdpa"] = {dtype: chosen(target, dtype) for dtype in formats}
    from harness.profiling.overhead import with_overhead

    return with_overhead(profile_of(samples, environment, found))


def write_profile(profile: Profile, results: Path) -> Path:
    """Put a profile at results/profiles/<device>.json: whole or not at all. Errors: OSError."""
    folder = results / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{profile.name}.json"
    write_whole(path, profile.model_dump_json(indent=1) + "\n")
    return path


def _stations(device: DeviceKind, dtypes: Sequence[str]) -> Iterator[list[Station]]:
    """Everything to be measured, a list for each kind of thing."""
    import torch

    from harness.profiling import attention, clock, launch, passes, products

    formats = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    ticking, reach = clock.clock_of(device), REACH[device]
    pools = {name: clock.Pool(device, formats[name], _POOL[device]) for name in dtypes}
    yield [launch.launch_station(device)]
    for name, pool in pools.items():
        rate = products.measured_rate(ticking, pool, 512 if device == "cpu" else 4096)
        most = rate * _LONGEST[device]
        dense, core = _shares(len(dtypes))
        given: tuple[Any, ...] = (ticking, pool, f"gemm.{name}", rate, device == "cpu")
        yield [products.layer_station(each, *given) for each in layers(reach, dense, most)]
        given = (ticking, pool, f"gemm.{name}.batched", rate, device == "cpu")
        yield [products.attention_station(each, *given) for each in attention_shapes(reach, core, most)]
        prompts, caches = attention.prompts(reach, 12, most / 4), attention.caches(reach, 8, len(pool.numbers) // 4)
        yield [attention.prompt_station(each, ticking, pool, name, rate) for each in prompts]
        yield [attention.cache_station(each, ticking, pool, name, 1e10) for each in caches]
    yield from passes.pass_stations(ticking, pools, _SIZES[device], _LARGER[device])
    yield from passes.adamw_stations(ticking, pools, _PARAMETERS[device])


def _shares(formats: int) -> tuple[int, int]:
    """Dense layers and attention_shapes to measure in each of so many formats, 300 products in all at most.

    A dense layer is 3 products, or in one of six 1; an attention is 6.
    """
    return {1: (72, 18), 2: (40, 7)}.get(formats, (24, 6))


def _versions(environment: Any) -> dict[str, Any]:
    names = ("cpu", "cores", "os", "torch", "cuda", "driver", "triton", "power_limit", "max_sm_clock", "commit", "load")
    return {name: value for name in names if (value := getattr(environment, name)) is not None}
