"""A layer of routed experts in an engine's own kernels, as they were measured: where it begins, what it reaches."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from calc.reading.files import parse_toml, read_text

FILE = Path(__file__).parents[1] / "data" / "serving" / "experts.toml"
LIKE = "Hopper"
"""The family whose kernels stand for those of families that were not measured."""


class ExpertKernels(NamedTuple):
    """start: seconds that a layer takes whatever its tokens: sorting, launches. stream, compute: shares of a
    datasheet's bandwidth and peak. tile: rows that products compute for each expert that is reached besides those of
    its tokens, since they come in tiles. passes: how often a token's row passes memory for each of its experts, to be
    sorted, narrowed and summed, whatever the width of the experts on a rank."""

    start: float
    stream: float
    compute: float
    tile: float = 0.0
    passes: float = 0.0


def kind_of(weights: str, running: str) -> str:
    """What kernels of experts differ by: the format of products, and of weights where they are widened or have 4 bits.
    weights: their format; running: that of products, or "widened"."""
    return f"{weights}-widened" if running == "widened" else weights if running == "fp4" else running


def expert_kernels(family: str, engine: str, kind: str) -> ExpertKernels:
    """The kernels of an engine on a family of architectures. kind: as `kind_of` has it.

    What was not measured is the mean of the same kind in other engines, else of kinds that are widened as it is, else
    of all in this family.
    """
    known = _measured()
    near = family if any(key[0] == family for key in known) else LIKE
    if (near, engine, kind) in known:
        return known[near, engine, kind]
    own = [(key, kernels) for key, kernels in known.items() if key[0] == near]
    alike = [kernels for key, kernels in own if key[2] == kind]
    widened = [kernels for key, kernels in own if key[2].endswith("-widened") and kind.endswith("-widened")]
    return _mean(alike or widened or [kernels for _, kernels in own])


def _mean(some: list[ExpertKernels]) -> ExpertKernels:
    return ExpertKernels(*(sum(column) / len(some) for column in zip(*some, strict=True)))


@cache
def _measured() -> dict[tuple[str, str, str], ExpertKernels]:
    table = parse_toml(read_text(FILE), FILE.name)
    return {
        (family, engine, running): ExpertKernels(**own)
        for family, engines in table.items()
        if family != "source"
        for engine, formats in engines.items()
        for running, own in formats.items()
    }
