"""From which length on one way to run attention takes less time than another."""

from __future__ import annotations

from collections.abc import Sequence

from calc.attention.bounds import Crossover, crossover, lengths, over_sequence
from calc.attention.shape import AttentionShape
from calc.spec.hardware import Device
from calc.spec.run import ExecutionName
from calc.time.attention_calls.backends import attention_seconds, kernels_of
from calc.time.device.profile import Profile
from calc.time.device.speed import Speed
from calc.time.device.speed_of import speed_of
from calc.time.kernels.kernel import Direction
from calc.time.kernels.timing import Answers, time_of


def time_crossover(
    where: Speed | Profile | Device | str,
    shape: AttentionShape,
    directions: Sequence[Direction] = ("forward",),
    execution: ExecutionName = "eager",
    backends: tuple[str, str] = ("reference", "sdpa_flash"),
) -> Crossover:
    """Where the second backend wins over the first, in predicted seconds, with seq = keys.

    Errors: as `attention_seconds`.
    """
    speed, known = speed_of(where), Answers()
    shapes = [over_sequence(shape, length) for length in lengths()]
    # All questions to one model at once; what then is asked length by length is known.
    every = (kernels_of(name, each, way, speed.kind) for each in shapes for name in backends for way in directions)
    time_of([kernel for kernels in every for kernel in kernels], speed, execution, known=known)
    needs = [
        tuple(attention_seconds(speed, name, each, directions, execution, known=known).seconds for name in backends)
        for each in shapes
    ]
    return crossover(shape, [(first, second) for first, second in needs])
