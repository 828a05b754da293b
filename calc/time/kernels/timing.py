"""Seconds of kernels on a device: each kind of kernel asked of its model, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from calc.dtypes import misaligned
from calc.errors import Refused
from calc.spec.run import ExecutionName
from calc.time.device.priors import priors, scaled
from calc.time.device.speed import Speed
from calc.time.kernels.choice import CALLS, FUSED, ask_collective, model_of
from calc.time.kernels.device_models import Choice
from calc.time.kernels.kernel import Kernel, Send, width_of
from calc.time.models.residual import Column
from calc.trace.functions import Matmul

Bound = Literal["compute", "memory", "launch", "network", "host"]
LEVEL = 0.9
"""Of the intervals that are told."""
FOREVER = 1e9
"""Seconds that no kernel takes."""
NOTHING = (0.0, (1.0, 1.0))
"""Of what no floor is known."""


Answers = dict[tuple[tuple[str, str], tuple[float, ...]], float]
"""(model, question) -> seconds."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One call of a kernel: seconds, between which others `level` of measured times lie, what bounds it, and what its
    time rests on (`measured`, or `prior` where the profile does not tell)."""

    seconds: float
    low: float
    high: float
    level: float
    bound: Bound
    source: Literal["measured", "prior"]


def time_of(
    kernels: Sequence[Kernel],
    speed: Speed,
    execution: ExecutionName,
    level: float = LEVEL,
    network: float | None = None,
    known: Answers | None = None,
    cold: bool = True,
) -> list[Timing]:
    """The time of one call of each kernel, without what the host needs to launch it.

    network: bytes/s of one GPU beyond its domain of fast links. known: what was asked before, to be added to. cold:
    whether weights come out of memory, as those of a step do; tables hold kernels that were called again and again,
    whose operands the shared cache may have kept.

    Errors: Refused for a format or a collective of which nothing is known.
    """
    choices = [model_of(kernel, speed, execution, network) for kernel in kernels]
    seconds = _answers(choices, {} if known is None else known)
    found = []
    intervals: dict[Any, tuple[float, float]] = {}
    for kernel, one, value in zip(kernels, choices, seconds, strict=True):
        value = max(value, _streamed(kernel) / speed.bandwidth) if cold else value
        least, widen = _misaligned(kernel, speed, execution)
        if least > value:
            value, one = least, replace(one, prior=True, widen=widen)
        if (kind := (one.key, one.prior, one.widen)) not in intervals:
            intervals[kind] = _interval(one, speed, level)
        low, high = intervals[kind]
        bound = _bound(kernel, speed, value)
        found.append(Timing(value, value * low, value * high, level, bound, "prior" if one.prior else "measured"))
    return found


def _streamed(kernel: Kernel) -> float:
    """Bytes of weights that one call of a product reads."""
    shape = kernel.shape
    if not isinstance(shape, Matmul) or not shape.weighed:
        return 0.0
    plain = float(shape.n * shape.k * shape.groups) * width_of(kernel.dtype)
    return plain if kernel.weight_bytes is None else min(kernel.weight_bytes, plain)


def _misaligned(kernel: Kernel, speed: Speed, execution: ExecutionName) -> tuple[float, tuple[float, float]]:
    """(seconds below which no product with a weight ends whose rows kernels that move 16 bytes at a time cannot take,
    between which multiples of them 90 of 100 lie); 0 seconds for others."""
    shape, device = kernel.shape, speed.device
    if not isinstance(shape, Matmul) or not shape.weighed or device is None or execution in FUSED:
        return NOTHING
    # Tokens are what no row is long as: the gradient of a weight sums over them, and elsewhere they are the rows.
    rows = (shape.m, shape.n) if kernel.use == "wgrad" else (shape.n, shape.k)
    table = priors()["misaligned"]
    rate = table["rates"].get(device.architecture)
    off = [size for size in rows if misaligned(size, 2)] if width_of(kernel.dtype) == 2 else []
    if rate is None or device.cores is None or not off or kernel.dtype not in device.known_peaks:
        return NOTHING
    fastest = min(rate * device.cores.value, float(device.peak(kernel.dtype)))
    low = table["low"] if any(size % 2 for size in off) else table["low_even"]
    return 2 * shape.m * shape.n * shape.k * shape.groups / fastest, (low, table["high"])


def _answers(choices: Sequence[Choice], known: Answers) -> list[float]:
    """Seconds of each; of what is not known yet, all questions to one model at once: models answer columns."""
    import numpy as np

    by_model: dict[tuple[str, str], dict[tuple[float, ...], Any]] = {}
    for one in choices:
        if (one.key, one.question) not in known:
            by_model.setdefault(one.key, {})[one.question] = one.model
    for key, questions in by_model.items():
        columns = np.array(list(questions), dtype=float).T
        with np.errstate(all="ignore"):  # of constants that no device has; what comes of them is refused
            answers = np.broadcast_to(CALLS[key[0]](next(iter(questions.values())), columns), len(questions))
        if not np.all((answers >= 0) & (answers < FOREVER)):
            raise Refused("profile", f"times below {FOREVER:.0e} s", f"{answers.max()!r} s of {key[0]}")
        for question, answer in zip(questions, answers, strict=True):
            known[key, question] = float(answer)
    return [known[one.key, one.question] * one.scale for one in choices]


def column_seconds(kernel: Kernel, speed: Speed, execution: ExecutionName, network: float | None) -> Column:
    """Seconds of one call of a pass or a collective whose sizes are columns; nan where nothing is known of it."""
    import numpy as np

    if not isinstance(kernel.shape, Send):
        one = model_of(kernel, speed, execution, network)
        return _possible(CALLS[one.key[0]](one.model, one.question) * one.scale)
    near, far = (_collectives(kernel.shape, beyond, speed, execution, network) for beyond in (False, True))
    return _possible(np.where(kernel.shape.beyond, far, near))


def _collectives(shape: Send, beyond: bool, speed: Speed, execution: ExecutionName, network: float | None) -> Column:
    """Those of collectives that all, or none, leave a node."""
    import numpy as np

    if not np.any(shape.beyond == beyond) or (beyond and network is None):
        return np.nan
    try:
        one = ask_collective(
            Send(shape.op, shape.ranks, shape.bytes, beyond, shape.near, shape.once), speed, network, execution
        )
    except Refused:
        return np.nan
    size, ranks, *rest = np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in one.question))
    if rest:
        with np.errstate(all="ignore"):  # of rows that stay within a domain
            return one.model.seconds(size, ranks, *rest)
    known = one.model.knows(ranks)
    return np.where(known, one.model.seconds(size, np.where(known, ranks, 1.0)), np.nan)


def _possible(seconds: Column) -> Column:
    """nan for what no kernel takes."""
    import numpy as np

    return np.where((seconds >= 0) & (seconds < FOREVER), seconds, np.nan)


def _interval(one: Choice, speed: Speed, level: float) -> tuple[float, float]:
    """Factors on the seconds of one kernel."""
    if one.widen is not None:
        return scaled(one.widen, level)
    if hasattr(one.model, "interval"):
        low, high = one.model.interval(level)
    else:
        low, high = scaled(one.model.spread, level)
    return (low, high) if one.prior else (low**speed.wider, high**speed.wider)


def _bound(kernel: Kernel, speed: Speed, seconds: float) -> Bound:
    """What a kernel waits for: products, bytes, or, where both are a small part of its time, being launched at all."""
    if isinstance(kernel.shape, Send):
        return "network"
    try:
        compute = kernel.flops / speed.peak(kernel.dtype)
    except Refused:
        compute = 0.0
    memory = kernel.bytes / speed.bandwidth
    if max(compute, memory) < 0.2 * seconds and seconds / max(kernel.launches, 1) < 2e-5:
        return "launch"
    return "compute" if compute > memory else "memory"
