"""What no machine can exceed, so that a time that implies more is a fault of the measurement and not a result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from calc.errors import Refused
from calc.spec.catalogue import load_device
from calc.spec.hardware import Device
from calc.units import si
from harness.record import Environment, Measurement

COMPUTE_LEEWAY = 1.1
"""Boards may run above the clock that their datasheet's peak is printed for: an H100 at 1,980 MHz instead of 1,830."""
MEMORY_LEEWAY = 1.05
"""Memory runs at its printed clock; the rest is for the resolution of the clock."""
IN_CACHE = 8
"""Bytes below this many times the L2 cache may come from there, and are not held against the memory's bandwidth."""
FASTEST_CLOCK = 6.2e9
"""Hz: above any processor that is sold."""
PER_CYCLE = {
    "fp32": (("avx512f", 64), ("avx2", 32), ("sse2", 16)),
    "bf16": (("amx_bf16", 2048), ("avx512_bf16", 128), ("avx512f", 64), ("avx2", 32), ("sse2", 16)),
}
"""FLOPs that a core of a processor with such instructions ends in a cycle at most: two units of fused multiply-adds as
wide as the registers, twice that for pairs of bf16, and for AMX the tiles of Intel's optimization manual, doubled."""


def catalogued(environment: Environment) -> Device | None:
    """The machine's GPU in the catalogue, None where it is not in there."""
    with suppress(Refused):
        return load_device(environment.name) if environment.device == "cuda" else None
    return None


def number_format(params: Mapping[str, Any]) -> str:
    """The format that a case's products are in, as catalogues call it: `bf16-mixed` computes in bf16."""
    return str(params.get("dtype") or "fp32").split("-")[0]


def peak_flops(environment: Environment, dtype: str) -> float | None:
    """The dense datasheet peak of the GPU, None where there is no such figure: what an MFU is a share of."""
    device = catalogued(environment)
    return float(device.peak(dtype)) if device is not None and dtype in device.known_peaks else None


def fastest(environment: Environment, dtype: str) -> float | None:
    """FLOP/s that this machine cannot exceed in `dtype`, None where nothing is known of it."""
    device = catalogued(environment)
    if device is None:
        return cpu_bound(environment, dtype) if environment.device == "cpu" else None
    # fp32 may be computed in tf32, where PyTorch was told that it may.
    names = ("fp32", "tf32") if dtype == "fp32" else (dtype,)
    allowed = [rate.value for name, rate in device.known_peaks.items() if name in names]
    return max(allowed) * COMPUTE_LEEWAY if allowed else None


def cpu_bound(environment: Environment, dtype: str) -> float | None:
    """Cores times the fastest clock times the widest instructions that the processor has."""
    with suppress(OSError):
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        flags = set(found[1].split()) if found else set()
        for flag, flops in PER_CYCLE["bf16" if dtype in ("bf16", "fp16") else "fp32"]:
            if flag in flags:
                return environment.cores * FASTEST_CLOCK * flops
    return None


def impossible(
    counts: Mapping[str, float], params: Mapping[str, Any], measured: Measurement, environment: Environment
) -> str | None:
    """Which physical limit a measurement breaks, one line; None where it breaks none that is known."""
    dtype = number_format(params)
    if measured.seconds <= 0:
        return "impossible: it took no time"
    limit, rate = fastest(environment, dtype), counts.get("flops", 0.0) / measured.seconds
    if limit is not None and rate > limit:
        return (
            f"impossible: {si(rate, 'FLOP/s')} of {dtype}, where {environment.name} has at most {si(limit, 'FLOP/s')}"
        )
    device = catalogued(environment)
    if device is None:
        return None
    moved = counts.get("bytes", 0.0)
    from_memory = measured.cache == "cold" or (device.l2 is not None and moved > IN_CACHE * device.l2.value)
    limit, rate = device.bandwidth.value * MEMORY_LEEWAY, moved / measured.seconds
    if from_memory and rate > limit:
        return f"impossible: {si(rate, 'B/s')} of memory, where {environment.name} has at most {si(limit, 'B/s')}"
    return None


def rates(
    counts: Mapping[str, float], params: Mapping[str, Any], measured: Measurement, environment: Environment
) -> dict[str, float]:
    """flops_per_second, bytes_per_second, tokens_per_second, and mfu: the FLOPs of convention `palm` a second as a
    share of the dense datasheet peak. Each where it is known."""
    seconds = measured.seconds
    if seconds <= 0:
        return {}
    found = {f"{name}_per_second": counts[name] / seconds for name in ("flops", "bytes", "tokens") if counts.get(name)}
    peak = peak_flops(environment, number_format(params))
    if counts.get("model_flops") and peak:
        found["mfu"] = counts["model_flops"] / seconds / peak
    return found
