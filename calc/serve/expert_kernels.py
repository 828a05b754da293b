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
    datasheet's bandwidth and peak."""

    start: float
    stream: float
    compute: float


def expert_kernels(family: str, engine: str, running: str) -> ExpertKernels:
    """The kernels of an engine on a family of architectures. running: the format of products, or "widened".

    What was not measured is the mean of the same format in other engines, else of all formats in this family.
    """
    known = _measured()
    near = family if any(key[0] == family for key in known) else LIKE
    if (near, engine, running) in known:
        return known[near, engine, running]
    alike = [own for key, own in known.items() if (key[0], key[2]) == (near, running)]
    return _mean(alike or [own for key, own in known.items() if key[0] == near])


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
