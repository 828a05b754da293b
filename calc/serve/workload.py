"""Workloads: lengths and times of requests, made or read from traces."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calc.errors import Refused
from calc.serve.requests import Request

REQUESTS = 10
"""Requests of a closed loop for each that is under way, where nobody says how many."""
MOST_REQUESTS = 20_000
MOST = 1_000_000
"""Requests of one simulation."""
LATEST = 1e9
"""Seconds from the first to the last request of one simulation, 32 years: so far from its beginning, clocks in double
precision still tell a tenth of a microsecond."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What clients do.

    requests: in the order in which they are sent; of a closed loop their times are not yet known. concurrency: of a
    closed loop, requests under way at once; None where each has its own time.
    """

    requests: tuple[Request, ...]
    concurrency: int | None = None

    @property
    def at_once(self) -> int:
        """Requests that may be under way at once."""
        return min(len(self.requests), self.concurrency or len(self.requests))

    @property
    def mean_input(self) -> float:
        """Tokens of a prompt in the mean."""
        return sum(each.input for each in self.requests) / len(self.requests)

    @property
    def mean_output(self) -> float:
        """Tokens of an answer in the mean."""
        return sum(each.output for each in self.requests) / len(self.requests)

    def part(self, which: int, of: int) -> Workload:
        """What one of several replicas gets of it, one request after the other to the next."""
        requests = self.requests[which::of]
        if self.concurrency is None:
            return Workload(requests)
        return Workload(requests, self.concurrency // of + (which < self.concurrency % of))


def closed_count(users: int) -> int:
    """Requests of a closed loop where nobody says how many: ten a user, and no more than many."""
    return min(REQUESTS * users, max(MOST_REQUESTS, users))


def closed_loop(concurrency: int, input: int, output: int, count: int, spread: float = 0.0, seed: int = 0) -> Workload:
    """So many clients, each of whom sends the next request when the last is answered.

    spread: lengths lie evenly within so much of what is named, half of it above and half below.
    Errors: Refused for more than one simulation takes.
    """
    _bound("--concurrency", concurrency)
    _bound("--requests", count)
    return Workload(tuple(_made([0.0] * count, input, output, spread, seed)), concurrency)


def open_loop(
    rate: float, input: int, output: int, count: int, spread: float = 0.0, seed: int = 0, burstiness: float = 1.0
) -> Workload:
    """Requests that come whatever the server does, `rate` in a second.

    burstiness: the shape of the gamma distribution of the times between them, as in vLLM's benchmark: 1 is Poisson,
    less comes in bursts, inf at even times. Errors: Refused for requests that come later than clocks can tell, and for
    more than one simulation takes.
    """
    _bound("--requests", count)
    if not count / rate <= LATEST:
        raise _late(count, rate)
    draw, now, times = random.Random(seed), 0.0, list[float]()
    for _ in range(count):
        now += 1 / rate if math.isinf(burstiness) else draw.gammavariate(burstiness, 1 / (rate * burstiness))
        times.append(now)
    if now > LATEST:
        raise _late(count, rate)
    return Workload(tuple(_made(times, input, output, spread, seed + 1)))


def _bound(field: str, count: int) -> None:
    if count > MOST:
        raise Refused(field, f"at most {MOST:,}", count)


def _late(count: int, rate: float) -> Refused:
    return Refused("--rate", f"{count:,} requests within {LATEST:,.0f} seconds, or fewer --requests", rate)


def _made(times: Sequence[float], input: int, output: int, spread: float, seed: int) -> Iterator[Request]:
    draw = random.Random(seed)

    def length(whole: int) -> int:
        half = whole * spread / 2
        return whole if not spread else draw.randint(max(1, math.ceil(whole - half)), int(whole + half))

    for number, sent in enumerate(times):
        yield Request(number, sent, length(input), length(output))


def read_trace(file: Path, limit: int | None = None, speed: float = 1.0) -> Workload:
    """The requests of a trace, by what its first line looks like (`calc.serve.traces`). limit: how many of them.
    speed: how much faster they come than they did."""
    from calc.serve.traces import rows

    found = []
    for number, row in enumerate(rows(file)):
        if limit is not None and number >= limit:
            break
        if number >= MOST:
            raise Refused("--trace", f"at most {MOST:,} requests", "more")
        found.append(row)
    if not found:
        raise Refused("--trace", "at least one request", "none")
    start = min(row.sent for row in found)
    found.sort(key=lambda row: row.sent)
    if found[-1].sent - start > LATEST * speed:
        raise Refused("--trace", f"requests within {LATEST:,.0f} seconds", f"{found[-1].sent - start:,.0f}")
    return Workload(
        tuple(
            Request(number, (row.sent - start) / speed, row.input, row.output, row.hashes)
            for number, row in enumerate(found)
        )
    )
