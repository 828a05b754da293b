"""The cases of suites that torchrun starts, at sizes fit for the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from calc.errors import Refused
from calc.spec.fields import DeviceKind
from harness.cases.collectives import CollectiveCase, ExchangeCase
from harness.cases.parallel import ParallelTrainingCase
from harness.cases.ranks import RankCase
from harness.ranks.start import Place

OPS: tuple[Any, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")
UNIT = 3 * 2**12
"""Bytes of the smallest message, for each rank; larger ones are four times it, again and again. A curve's points are
powers of two, so that no case is one of them."""
LARGEST = 2**31


def collectives(place: Place, device: DeviceKind) -> Iterator[RankCase]:
    """Every collective at sizes between those of the curves, among all ranks and, of several nodes, within one."""
    sizes = [UNIT * place.ranks * 4**n for n in range(8 if device == "cuda" else 5)]
    sizes = [nbytes for nbytes in sizes if nbytes <= LARGEST]
    near = place.near if place.near < place.ranks else None
    for op in OPS:
        for nbytes in sizes:
            yield CollectiveCase(op, nbytes, place.ranks, near)


def parallel(place: Place, device: DeviceKind) -> Iterator[RankCase]:
    """Steps of training under each way to spread a model, and what context and experts' ranks exchange."""
    ranks, near = place.ranks, place.near if place.near < place.ranks else None
    gpu = device == "cuda"
    small, batch, seq = ("gpt2", 8, 1024) if gpu else ("small-llama", 2, 256)
    untied = "llama-3.2-1b" if gpu else "small-llama"
    sizes: dict[str, Any] = {"ranks": ranks, "near": near}
    for strategy in ("ddp", "fsdp"):
        yield ParallelTrainingCase(small, seq, batch, strategy=strategy, **sizes)
    made: list[Callable[[], RankCase]] = [
        lambda: ParallelTrainingCase(small, seq, batch, strategy="tensor", **sizes),
        lambda: ParallelTrainingCase("small-llama", seq, batch, strategy="pipeline", micro_batches=4, **sizes),
        lambda: ExchangeCase(untied, "context", seq * ranks, 1, **sizes),
        lambda: ExchangeCase("moe-3b" if gpu else "tiny-moe", "experts", seq * ranks, 1, **sizes),
    ]
    for make in made:
        case = possible(make)
        if case is not None:
            yield case


def possible(make: Callable[[], RankCase]) -> RankCase | None:
    """A case, or None where so many ranks do not divide its model."""
    try:
        return make()
    except Refused:
        return None


RANK_SUITES: dict[str, Callable[[Place, DeviceKind], Iterator[RankCase]]] = {
    "collectives": collectives,
    "parallel": parallel,
}
"""Suite -> its cases for the ranks of a job."""
