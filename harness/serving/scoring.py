"""How wrong predictions of servers are: every measured row simulated as the product does it, errors by group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calc.serve.answer import Answer, answer
from calc.serve.constants import Constants, constants
from calc.serve.layout import Layout, layout_of
from calc.serve.service import Service, service_of
from calc.serve.workload import Workload, closed_loop
from calc.spec import ModelSpec
from calc.spec.cache_key import CacheKey
from calc.spec.run.engines import Engine
from harness.serving.possible import check_possible
from harness.serving.rows import GPUS, ServedRow

FOLDS = Path(__file__).with_name("folds")
COUNTED = 1.0
"""Spread of lengths of texts that were counted afterwards: so much that requests that begin together do not stay so.
With a tenth, answers of 100 tokens stay in step for a whole benchmark, and first tokens of Llama 3.1 8B under SGLang,
a system of the split's list, came four times too late."""
NOT_ASKED = {"source": "", "system": "", "ttft": None, "tpot": None, "output_per_gpu": None}
"""What a row says that no prediction of it depends on."""
MOST = 4000
"""Requests of one simulation; of more that are under way at once, two rounds."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A row beside its prediction: predicted over measured; None where the row does not tell, or where nothing fits."""

    row: ServedRow
    ttft: float | None
    tpot: float | None
    throughput: float | None
    saturated: bool
    inside: tuple[bool | None, ...] = (None, None, None)


class Told:
    """What the product says of rows by the shipped constants, or by those `given`: simulated once for all rows that
    differ in what was measured alone, such as those of one server on several days."""

    def __init__(self, given: Constants | None = None) -> None:
        self.given = given
        self.known: dict[tuple[CacheKey[ModelSpec], str], Answer] = {}

    def of(self, row: ServedRow, spec: ModelSpec) -> Answer:
        """The answer to a row. Errors: Refused for what cannot be expressed."""
        key = CacheKey(spec), repr(replace(row, **NOT_ASKED))
        if key not in self.known:
            service, decode = services(row, spec, self.given)
            self.known[key] = answer(service, loop_of(row, service.engine), decode)
        return self.known[key]


def folds() -> dict[str, Constants]:
    """What judges which rows: constants fitted to the systems that the split lists, and to all others."""
    return {name: constants(FOLDS / f"{name}.toml") for name in ("listed", "others")}


def judged(row: ServedRow, spec: ModelSpec, listed: frozenset[str], by: Mapping[str, Told]) -> Scored:
    """A row beside what is told by constants of `folds` that did not see its system. Errors: Refused for what cannot be
    expressed."""
    return scored(row, spec, by["others" if row.system in listed else "listed"])


def services(row: ServedRow, spec: ModelSpec, given: Constants | None = None) -> tuple[Service, Service | None]:
    """What a row ran, as the product describes it. Errors: Refused for what cannot be."""
    gpu = GPUS.get(row.gpu, row.gpu)
    words = (row.engine, row.dtype, row.cache)

    def one(layout: Layout) -> Service:
        made = service_of(spec, gpu, layout, *words, budget=row.budget)
        return replace(made, given=given, polls=row.polls, hold=row.hold)

    if row.prefill is None:
        return one(layout_of(spec, **row.layout)), None
    reading, making = _own(row.prefill), row.layout
    return (
        one(layout_of(spec, gpus=_gpus(reading) * row.prefill["workers"], **reading)),
        one(layout_of(spec, gpus=_gpus(making) * row.decode_workers, **making)),
    )


def _own(words: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in words.items() if name != "workers"}


def _gpus(words: dict[str, int]) -> int:
    return words["tp"] * words["pp"] * words["attention_dp"]


def spread_of(row: ServedRow, engine: Engine) -> float:
    """How far lengths of a row's requests lie apart, as a part of their mean.

    As its benchmark draws them; none where they are exact and prompts go ahead, which keeps requests in step; and wide
    where texts were made first and counted afterwards, which never were in step (`COUNTED`).
    """
    if row.spread:
        return row.spread / (1 - row.spread / 2)
    if row.exact:
        return engine.scatter if engine.mixed else 0.0
    return COUNTED


def loop_of(row: ServedRow, engine: Engine) -> Workload:
    """The requests of a row, as its benchmark sends them."""
    under_way = max(round(row.concurrency), 1)
    count = max(min(row.rounds * under_way, MOST), 2 * under_way)
    return closed_loop(under_way, round(row.mean_input), round(row.mean_output), count, spread_of(row, engine))


def scored(row: ServedRow, spec: ModelSpec, told: Told) -> Scored:
    """A row beside its prediction. Errors: Refused for what cannot be expressed."""
    service, decode = services(row, spec, told.given)
    check_possible(row, decode or service, decode and service)
    found = told.of(row, spec)
    report = found.report
    if report is None:
        return Scored(row, None, None, None, False)
    gpus = row.gpus
    values = (
        (report.ttft.mean, row.ttft, "ttft"),
        (report.tpot.mean, row.tpot, "tpot"),
        (report.output / gpus, row.output_per_gpu, "throughput"),
    )
    ttft, tpot, throughput = (None if measured is None else predicted / measured for predicted, measured, _ in values)
    inside = tuple(
        None
        if measured is None
        else found.interval[name][1] <= measured * _scale(name, gpus) <= found.interval[name][2]
        for _, measured, name in values
    )
    return Scored(row, ttft, tpot, throughput, found.saturated, inside)


def _scale(name: str, gpus: int) -> int:
    """Intervals of throughput are of all GPUs, rows of one."""
    return gpus if name == "throughput" else 1


@dataclass(frozen=True, slots=True)
class Errors:
    """Absolute relative errors of some rows: how many, their median and mean; bias: the median of predicted over
    measured, less 1. inside: the share of them within the interval."""

    rows: int
    median: float
    mean: float
    bias: float


def errors_of(ratios: Iterable[float | None]) -> Errors:
    """The errors of those ratios that there are; nan of none."""
    known = sorted(ratio for ratio in ratios if ratio is not None)
    if not known:
        return Errors(0, math.nan, math.nan, math.nan)
    wrong = sorted(abs(ratio - 1) for ratio in known)
    return Errors(len(known), _median(wrong), sum(wrong) / len(wrong), _median(known) - 1)


def _median(values: Sequence[float]) -> float:
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def coverage(found: Iterable[Scored], which: int) -> float:
    """The share of measured numbers within their interval; which: 0 ttft, 1 tpot, 2 throughput."""
    known = [each.inside[which] for each in found if each.inside[which] is not None]
    return sum(map(bool, known)) / len(known) if known else math.nan


def grouped(found: Iterable[Scored], key: Callable[[Scored], str]) -> Iterator[tuple[str, list[Scored]]]:
    """Rows by what they have in common, in order of that."""
    groups: dict[str, list[Scored]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    yield from sorted(groups.items())
