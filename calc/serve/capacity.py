"""How many sequences a server can hold: what weights and a step leave of a GPU's memory, in blocks of tokens."""

from __future__ import annotations

import math

from calc.serve.machine import Machine
from calc.serve.rank import Rank, at
from calc.spec.hardware import Device
from calc.spec.run.engines import Engine

STEP_BYTES = 6
"""Bytes that a step takes for each token and element of the residual stream, times the widest of its tensors."""
RUNTIME = 2 * 2**30
"""Bytes of CUDA's context, graphs and communication buffers."""


def cache_room(rank: Rank, device: Device | Machine, engine: Engine, budget: int) -> float:
    """Bytes for keys and values on each GPU beside a step of `budget` tokens; negative where weights alone do not
    fit."""
    step = budget * rank.message * STEP_BYTES
    if engine.fraction_of == "free":
        return (device.usable - rank.held - step - RUNTIME) * engine.memory_fraction
    if engine.fraction_of == "found":
        return (device.usable - RUNTIME) * engine.memory_fraction - rank.held
    return device.usable * engine.memory_fraction - rank.held - step - RUNTIME


def cached_bytes(rank: Rank, engine: Engine, tokens: float) -> float:
    """Bytes that one sequence of so many tokens takes on a GPU, whole blocks; a stage of a pipeline has its share."""
    blocks = math.ceil(tokens / engine.block) * engine.block
    return float(at(rank.cached_bytes, blocks)) / rank.pp
