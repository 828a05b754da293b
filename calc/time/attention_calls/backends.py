"""Time of one call of attention by what runs it: the device's own kernel, another fused one, or steps in the open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from calc.attention.shape import AttentionShape
from calc.errors import Refused
from calc.spec.hardware import Device
from calc.spec.run import ExecutionName
from calc.time.attention_calls.written_out import WRITTEN_OUT
from calc.time.device.datasheet import in_tiles
from calc.time.device.priors import factors, priors, scaled
from calc.time.device.profile import Profile
from calc.time.device.speed import Speed
from calc.time.device.speed_of import speed_of
from calc.time.kernels.choice import model_of
from calc.time.kernels.kernel import Direction, Kernel
from calc.time.kernels.single_kernel import attention_kernel, found_again
from calc.time.kernels.timing import LEVEL, Answers, Bound, Timing, time_of
from calc.time.step.prediction import stretches

FUSED = (
    "sdpa_flash",
    "sdpa_efficient",
    "sdpa_cudnn",
    "flex",
    "triton",
    "triton_decode",
    "triton_paged",
    "flash_attn",
    "flash_attn_3",
)
"""Backends of `harness.kernels` that are one kernel."""
DECODERS = ("triton_decode", "triton_paged")
"""Those made for one new token, which waits for memory whoever reads it."""
ON_CPU = ("sdpa_flash",)
"""Those of them that a CPU runs as one."""
TIMED = (*(name for name in WRITTEN_OUT if not name.startswith("mla")), *FUSED)
"""Backends of softmax attention of which a time is known."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Seconds of one call, between which others `level` of measured times lie, and what bounds it.

    source: `measured`, or `prior` where a part of it rests on a prior. basis: on what, in words. kernels: what runs.
    """

    backend: str
    seconds: float
    low: float
    high: float
    level: float
    bound: Bound
    source: Literal["measured", "prior"]
    basis: str
    kernels: tuple[Kernel, ...]


def attention_seconds(
    where: Speed | Profile | Device | str,
    backend: str,
    shape: AttentionShape,
    directions: Sequence[Direction] = ("forward",),
    execution: ExecutionName = "eager",
    level: float = LEVEL,
    known: Answers | None = None,
) -> Expected:
    """The time of `shape` by a backend of `harness.kernels`, called again and again.

    directions: what runs, ("forward",), ("backward",) or both, whatever the shape says. execution: `graph` where it is
    replayed from a CUDA graph. known: what was asked of this device before, to be added to.
    Errors: Refused for a backend or a shape of which nothing is known, and as `calc.time.predict`.
    """
    speed = speed_of(where)
    if not runs_backends(speed):
        raise Refused("--gpu", "a device that PyTorch runs its kernels on", speed.name)
    kernels = [each for direction in directions for each in kernels_of(backend, shape, direction, speed.kind)]
    timings = time_of(kernels, speed, execution, level, known=known)
    if speed.kind == "cpu" and (backend in WRITTEN_OUT or shape.phase == "decode"):
        timings = [found_again(timing, level) for timing in timings]
    basis = "products and passes, each by itself"
    if backend in FUSED:
        moved = [
            _by(backend, kernel, timing, speed, execution) for kernel, timing in zip(kernels, timings, strict=True)
        ]
        timings, basis = [timing for timing, _ in moved], moved[0][1]
    return _summed(backend, kernels, timings, speed, execution, basis)


def runs_backends(speed: Speed) -> bool:
    """Whether it is a device that PyTorch runs these kernels on."""
    return speed.device is None or in_tiles(speed.device)


def kernels_of(backend: str, shape: AttentionShape, direction: Direction, kind: str) -> list[Kernel]:
    """What runs on a `cpu` or a `cuda` device. Errors: Refused where that is not known."""
    if shape.softcap is not None or shape.alibi or shape.lengths is not None:
        raise Refused("shape", "no soft-cap, ALiBi or padding where a time is asked for", str(shape))
    if backend in WRITTEN_OUT:
        return list(WRITTEN_OUT[backend](shape, direction, kind == "cpu"))
    if backend not in (ON_CPU if kind == "cpu" else FUSED):
        raise Refused("backend", f"one whose time is known on a {kind} device: {', '.join(_timed(kind))}", backend)
    return [fused_kernel(shape, direction == "backward")]


def _timed(kind: str) -> tuple[str, ...]:
    return (*WRITTEN_OUT, *(ON_CPU if kind == "cpu" else FUSED))


def fused_kernel(shape: AttentionShape, back: bool) -> Kernel:
    """Attention in one kernel: FLOPs of pairs that masks keep, each operand read once."""
    sizes = (shape.batch, shape.heads, shape.kv_heads, shape.seq, shape.keys, shape.d_head, shape.dtype, shape.d_value)
    kernel = attention_kernel(*sizes, causal=shape.causal, window=shape.window, backward=back)
    return kernel._replace(decode=shape.phase == "decode" and not back)


def _by(backend: str, kernel: Kernel, timing: Timing, speed: Speed, execution: ExecutionName) -> tuple[Timing, str]:
    """The time of a fused kernel beside the one whose time is known, and what that rests on."""
    one = model_of(kernel, speed, execution, None)
    base = _measured(one.model, speed)
    known = "the datasheet" if one.prior else "the profile's kernel"
    if speed.kind == "cpu" or backend == base:
        return timing, known
    table = priors()["attention"]["backends"]
    own = table.get(speed.device.architecture if speed.device else "", {}).get(kernel.direction, {})
    if kernel.decode and (backend in own or backend in DECODERS):
        ratio, bounds = 1.0, factors("attention")
    elif backend in own and base in own:
        ratio = _ratio(own[backend], own[base], kernel, timing.seconds, speed)
        bounds = table["low"], table["high"]
    else:
        raise Refused(
            "backend", f"one that is known beside {base} on {speed.name}: {', '.join(own) or 'none'}", backend
        )
    low, high = scaled(bounds, timing.level)
    moved = replace(
        timing,
        seconds=ratio * timing.seconds,
        low=ratio * timing.low * low,
        high=ratio * timing.high * high,
        source="prior",
    )
    return moved, f"{ratio:.2f} x {known} ({base})"


def _ratio(backend: float, base: float, kernel: Kernel, seconds: float, speed: Speed) -> float:
    """How many times as long a kernel takes as one that takes `seconds`. backend, base: what the two take of the
    longest prompts, over the fastest there is: what either adds is arithmetic."""
    if speed.device is None:
        return backend / base
    fastest = float(kernel.flops) / (speed.device.peak(kernel.dtype) * priors()["attention"]["backends"]["reached"])
    return 1 + (backend - base) * min(fastest / seconds, 1 / base)


def _measured(model: object, speed: Speed) -> str:
    """The backend whose times a model of attention was fitted to."""
    source = getattr(model, "kernel_source", "")
    named = [name for name in FUSED if source.endswith(name)]
    if named:
        return named[0]
    # Constants of datasheets are those typical of an H100's measured tables, which are FlashAttention-3's.
    hopper = speed.device is None or speed.device.architecture == "Hopper"
    return "flash_attn_3" if hopper else "sdpa_flash"


def _summed(
    backend: str, kernels: list[Kernel], timings: list[Timing], speed: Speed, execution: ExecutionName, basis: str
) -> Expected:
    """All kernels one after the other; on a GPU no faster than the host asks for them. The time of a kernel alone is
    that of calling it again and again; between several there are gaps, on a CPU Python's."""
    seconds = low = high = 0.0
    waits: dict[Bound, float] = {}
    for stretch in stretches(kernels, timings, speed, execution):
        single = len(stretch.rows) == 1
        times = [row.kernel.calls * row.timing.seconds if single else row.seconds for row in stretch.rows]
        device = sum(times)
        if stretch.host > device:
            below, above = scaled(factors("launch"), timings[0].level)
            seconds, low, high = seconds + stretch.host, low + below * stretch.host, high + above * stretch.host
            waits["launch"] = waits.get("launch", 0.0) + stretch.host
            continue
        seconds += device
        for row, time in zip(stretch.rows, times, strict=True):
            low += time * row.timing.low / row.timing.seconds
            high += time * row.timing.high / row.timing.seconds
            waits[row.timing.bound] = waits.get(row.timing.bound, 0.0) + time
    bound = max(waits, key=lambda name: waits[name])
    source = "prior" if any(timing.source == "prior" for timing in timings) else "measured"
    return Expected(backend, seconds, low, high, timings[0].level, bound, source, basis, tuple(kernels))
