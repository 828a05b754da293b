"""What requests see of a service: the distributions that benchmarks of servers print, by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from calc.serve.requests import Request
from calc.serve.simulate import Simulated

DEFINITIONS = (
    "ttft: sending to first token; tpot: (last - first) / (tokens - 1) of a request; itl: between tokens; e2e: sending "
    "to last token; waiting: sending until a step begins to read the prompt; throughput: tokens over the time from "
    "first sending to last answer (vLLM's bench serve, AIPerf)"
)


class Spread(NamedTuple):
    """A distribution: its mean and percentiles, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Report:
    """What a simulation tells. Seconds; tokens a second of all replicas. concurrency: requests under way in the mean.

    waiting: seconds from sending until the step began in which a prompt was first read: those of the host ahead of the
    engine, the step that ran meanwhile, and the queue for room; no part of it is reading. hit_rate: of prompts' tokens,
    those found in the cache. cache_use: the most of the cache that was taken. reading: of a server's busy time, steps
    with prompts in them."""

    ttft: Spread
    tpot: Spread
    itl: Spread
    e2e: Spread
    waiting: Spread
    output: float
    total: float
    requests_per_second: float
    concurrency: float
    answered: int
    refused: int
    preemptions: int
    hit_rate: float
    cache_use: float
    reading: float
    seconds: float


def report_of(runs: Sequence[Simulated], first: float = 0.0) -> Report:
    """What the replicas of a service tell together. first: of all requests, those at the beginning that count not.

    Errors: ValueError where nobody was answered.
    """
    counted = [each for run in runs for each in _later(run.answered, first)]
    if not counted:
        raise ValueError("nobody was answered")
    start = min(each.sent for each in counted)
    seconds = max(max(each.last or 0.0 for each in counted) - start, 1e-12)
    made, read = sum(each.output for each in counted), sum(each.input for each in counted)
    busy = sum(run.reading + run.decoding for run in runs)
    return Report(
        ttft=_spread(counted, lambda each: each.ttft),
        tpot=_spread([each for each in counted if each.output > 1], lambda each: each.tpot),
        itl=_weighed([gap for run in runs for gap in run.gaps]),
        e2e=_spread(counted, lambda each: each.e2e),
        waiting=_spread(counted, lambda each: (each.scheduled or each.sent) - each.sent),
        output=made / seconds,
        total=(made + read) / seconds,
        requests_per_second=len(counted) / seconds,
        concurrency=sum(each.e2e for each in counted) / seconds,
        answered=sum(len(run.answered) for run in runs),
        refused=sum(each.refused for run in runs for each in run.requests),
        preemptions=sum(run.preemptions for run in runs),
        hit_rate=sum(each.cached for each in counted) / read,
        cache_use=max(run.peak_blocks / run.blocks if run.blocks else 0.0 for run in runs),
        reading=sum(run.reading for run in runs) / busy if busy else 0.0,
        seconds=seconds,
    )


def _later(requests: Sequence[Request], first: float) -> Sequence[Request]:
    ordered = sorted(requests, key=lambda each: each.sent)
    return ordered[int(len(ordered) * first) :]


def _spread(requests: Sequence[Request], of: Callable[[Request], float]) -> Spread:
    return spread_of(list(map(of, requests)))


def spread_of(values: Sequence[float]) -> Spread:
    """The distribution of some values; zeros of none."""
    ordered = sorted(values)
    if not ordered:
        return Spread(0.0, 0.0, 0.0, 0.0)
    return Spread(sum(ordered) / len(ordered), *(_percentile(ordered, part) for part in (0.5, 0.9, 0.99)))


def _percentile(values: Sequence[float], part: float) -> float:
    """As numpy's, between the two nearest."""
    at = part * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def _weighed(gaps: Sequence[tuple[float, int]]) -> Spread:
    """The distribution of gaps between tokens, each as often as it was."""
    ordered = sorted(gap for gap in gaps if gap[1])
    total = sum(count for _, count in ordered)
    if not total:
        return Spread(0.0, 0.0, 0.0, 0.0)
    mean = sum(seconds * count for seconds, count in ordered) / total
    found, passed, wanted = [], 0, [0.5, 0.9, 0.99]
    for seconds, count in ordered:
        passed += count
        while wanted and passed >= wanted[0] * total:
            found.append(seconds)
            wanted.pop(0)
    return Spread(mean, *found)
