"""Single kernels by their sizes, and the time of one."""

from __future__ import annotations

from dataclasses import replace

from calc import checks
from calc.spec.hardware import Device
from calc.spec.pairs import twice_seen_around, twice_seen_last
from calc.spec.run import ExecutionName
from calc.time.device.priors import priors, scaled
from calc.time.device.profile import Profile
from calc.time.device.speed import Speed
from calc.time.device.speed_of import speed_of
from calc.time.kernels.kernel import Kernel, Send, Use, backward_elements, pass_bytes, width_of
from calc.time.kernels.launching import launching
from calc.time.kernels.timing import Timing, time_of
from calc.time.models.collective import COLLECTIVES, Collective
from calc.trace.functions import ATTENTION_BACK, Attend, Matmul


def kernel_seconds(
    where: Speed | Profile | Device | str, kernel: Kernel, execution: ExecutionName = "eager", level: float = 0.9
) -> Timing:
    """The time of one call of a kernel that runs alone, again and again: that of the device, or on a GPU of the host
    that launches it, whichever is longer. Errors: as `predict`.

    On a CPU a pass may find all that it reads in a near cache, unlike in a step, so that the interval begins lower.
    """
    speed = speed_of(where)
    timing = time_of([kernel], speed, execution, level, cold=False)[0]
    if speed.kind == "cpu":
        return found_again(timing, level) if kernel.shape is None else timing
    _, host = launching(kernel, timing.seconds, speed, execution)
    if host <= timing.seconds:
        return timing
    grown = host / timing.seconds
    return replace(timing, seconds=host, low=timing.low * grown, high=timing.high * grown, bound="launch")


def found_again(timing: Timing, level: float) -> Timing:
    """The time of a pass on a CPU that is called again and again."""
    low, _ = scaled((priors()["again"]["low"], 1.0), level)
    return replace(timing, low=min(timing.low, low * timing.seconds))


def matmul(m: int, n: int, k: int, dtype: str, batch: int = 1, use: Use = "forward") -> Kernel:
    """`batch` products [m, k] x [k, n]. use: which product of a dense layer it is; `batched` for activations."""
    size = width_of(dtype)
    return Kernel(
        path="matmul",
        component="other",
        function="matmul",
        direction="forward",
        dtype=dtype,
        flops=2.0 * batch * m * n * k,
        bytes=float(batch * (m * k + k * n + m * n) * size),
        shape=Matmul(m, n, k, batch, weighed=use != "batched"),
        use=use,
    )


def pass_over(function: str, elements: float, dtype: str, backward: bool = False) -> Kernel:
    """One pass; elements: as `pass_bytes`."""
    size = width_of(dtype)
    profiled = float(pass_bytes(function, elements, size))
    moved = profiled
    if backward and function == "cross_entropy":
        moved = 2 * profiled
    elif backward:
        moved = float(backward_elements(function, profiled / size - elements, elements) * size)
    return Kernel(
        path=function,
        component="other",
        function=function,
        direction="backward" if backward else "forward",
        dtype=dtype,
        bytes=moved,
        profiled_bytes=profiled,
    )


def attention_kernel(
    batch: int,
    heads: int,
    kv_heads: int,
    seq: int,
    keys: int,
    d_head: int,
    dtype: str,
    d_value: int | None = None,
    causal: bool = True,
    window: int | None = None,
    backward: bool = False,
) -> Kernel:
    """Attention of `seq` new tokens over `keys` (the new ones among them) in one kernel; FLOPs of pairs that a mask
    keeps, two and a half times as many going back. window: as `calc.attention.AttentionShape` has it."""
    d_value = d_head if d_value is None else d_value
    pairs = _pairs(seq, keys, causal, window)
    if window is not None and not causal:
        # Models of kernels know a window by the most keys that one query sees.
        window = 2 * window - 1
    shape = Attend(batch * kv_heads, heads / kv_heads, seq, keys, d_head, d_value, causal, window)
    moved = batch * (heads * seq * (d_head + d_value) + kv_heads * keys * (d_head + d_value)) * width_of(dtype)
    times = ATTENTION_BACK if backward else 1.0
    return Kernel(
        path="attention",
        component="attention",
        function="attention",
        direction="backward" if backward else "forward",
        dtype=dtype,
        flops=times * 2.0 * batch * heads * pairs * (d_head + d_value),
        bytes=times * moved,
        shape=shape,
        sequences=batch,
    )


def decode_attention(
    batch: int,
    heads: int,
    kv_heads: int,
    context: int,
    d_head: int,
    dtype: str,
    window: int | None = None,
    d_value: int | None = None,
) -> Kernel:
    """Attention of one new token of each sequence over `context` tokens, itself among them."""
    kernel = attention_kernel(batch, heads, kv_heads, 1, context, d_head, dtype, d_value, window=window)
    return kernel._replace(decode=True)


def exchange(op: Collective, nbytes: float, ranks: int) -> Kernel:
    """One collective within a node; nbytes: as `Send`. Errors: Refused for an unknown one."""
    checks.word("collective", op, COLLECTIVES)
    return Kernel(
        path=op,
        component="network",
        function=op,
        direction="network",
        dtype="bf16",
        bytes=float(nbytes),
        shape=Send(op, ranks, float(nbytes)),
    )


def _pairs(seq: int, keys: int, causal: bool, window: int | None) -> float:
    """Query-key pairs of one head that the mask keeps."""
    if causal:
        return twice_seen_last(seq, keys, window) / 2
    return float(seq * keys) if window is None else twice_seen_around(seq, keys, window) / 2
