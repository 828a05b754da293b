"""Measuring many small things within a budget of time: in rounds, so that a slow minute touches all of them alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple

ROUNDS = 3
_RESERVE = 1.15
"""A point is begun only where this much more than its last time is left."""


class Key(NamedTuple):
    """What a time is of. group: a model of the profile, such as `gemm.fp32`; sizes: what it depends on, in order."""

    group: str
    sizes: tuple[float, ...]


@dataclass
class Station:
    """Something that is set up once a round and gives the seconds of one or several things.

    name: as a person calls it. measure: sets up, measures and lets go.
    """

    name: str
    measure: Callable[[], Iterable[tuple[Key, float]]]
    last: float = 0.0
    visits: int = 0


@dataclass
class Samples:
    """Seconds by what they are of. rounds: how often the whole list was gone through, the last time perhaps not to
    its end; failed: why something could not be measured, by its name."""

    seconds: dict[Key, list[float]] = field(default_factory=dict)
    rounds: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def medians(self, group: str) -> list[tuple[tuple[float, ...], float]]:
        """(sizes, seconds) of a group, in the order of their sizes: the lower middle one of each point's visits."""
        own = {key.sizes: median_low(times) for key, times in self.seconds.items() if key.group == group}
        return sorted(own.items())

    def groups(self) -> list[str]:
        """The groups that have samples."""
        return sorted({key.group for key in self.seconds})


def interleaved(*lists: Sequence[Station]) -> list[Station]:
    """All lists in one, the first of each ahead, the others spread evenly: what a short run leaves out, it leaves out
    of all."""
    places = [(i / len(each), station) for each in lists for i, station in enumerate(each)]
    return [station for _, station in sorted(places, key=lambda placed: placed[0])]


def collect(
    stations: Sequence[Station],
    seconds: float,
    progress: Callable[[int, int, float], None] = lambda done, total, left: None,
    rounds: int = ROUNDS,
    seed: int = 0,
    now: Callable[[], float] = time.monotonic,
) -> Samples:
    """Go through all stations `rounds` times, the first time in their order and then in others, for `seconds` at most.

    progress: called with stations done, stations in all, and seconds left. A station that fails is left out from then
    on, with the reason; one that would not end in time is passed over, and so are all where no time is left.
    """
    samples, end, done = Samples(), now() + seconds, 0
    shuffle = random.Random(seed).sample
    for turn in range(rounds):
        order = list(stations) if turn == 0 else shuffle(list(stations), len(stations))
        for station in order:
            begun = now()
            if station.name not in samples.failed and begun + _RESERVE * station.last <= end:
                _visit(station, samples)
                station.last = now() - begun
                samples.rounds = turn + 1
            done += 1
            progress(done, rounds * len(stations), max(end - now(), 0.0))
    return samples


def _visit(station: Station, samples: Samples) -> None:
    try:
        for key, seconds in station.measure():
            samples.seconds.setdefault(key, []).append(seconds)
    except (RuntimeError, NotImplementedError) as error:
        # What a backend cannot do, or memory that runs out (torch.OutOfMemoryError is a RuntimeError), costs a point.
        samples.failed[station.name] = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    station.visits += 1


def halton(count: int, bases: Sequence[int] = (2, 3, 5)) -> Iterator[tuple[float, ...]]:
    """Points spread evenly in a cube (Halton 1960); the first of them are too, so that a list may be cut anywhere."""
    for i in range(1, count + 1):
        yield tuple(_radical_inverse(i, base) for base in bases)


def _radical_inverse(number: int, base: int) -> float:
    value, share = 0.0, 1.0 / base
    while number:
        number, digit = divmod(number, base)
        value, share = value + digit * share, share / base
    return value


def between(low: float, high: float, place: float) -> float:
    """The number at `place` (0 to 1) of the way from low to high, evenly in logarithms."""
    return low * (high / low) ** place


def to_multiple(value: float, of: int) -> int:
    """The nearest multiple above 0."""
    return max(round(value / of), 1) * of
