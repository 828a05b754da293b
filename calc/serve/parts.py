"""A simulation that other processes can run, and its outcome as columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from calc.serve.requests import Request
from calc.serve.service import Service
from calc.serve.simulate import OnAnswered, Simulated, ignore, shared_prefixes, simulate
from calc.serve.traces import BLOCK
from calc.serve.workload import Workload
from calc.workers.identity import digest
from calc.workers.job import Job, Part, Progress

TIMES = ("sent", "scheduled", "first", "last")
ANSWERED = "requests answered"
COUNTS = ("cached", "preempted", "refused")
"""What a simulation finds out of each request; all else the workload has said."""


class Replicas(NamedTuple):
    """A workload over the replicas of a service. tokens: of a request in the mean. progress: told of requests that are
    answered, where the simulation runs in this process."""

    service: Service
    parts: Sequence[Workload]
    tokens: float
    progress: Progress | None = None


def job_of(replicas: Replicas) -> Job:
    """Every replica a chunk."""
    n = len(replicas.parts)
    return Job("serve", lambda: _described(replicas), simulated, replicas, range(n), n)


def _described(replicas: Replicas) -> dict[str, Any]:
    """All that a simulation depends on; of requests a digest, since there may be a million."""
    requests = (repr((part.concurrency, part.requests)).encode() for part in replicas.parts)
    return {"service": repr(replicas.service), "tokens": replicas.tokens, "requests": digest(*requests)}


def simulated(replicas: Replicas, which: int) -> Part:
    """What becomes of the requests of one replica."""
    import numpy as np

    service, part = replicas.service, replicas.parts[which]
    shared = shared_prefixes(part, BLOCK) if service.engine.prefix_cache else None
    found = simulate(
        part,
        lambda: service.server(replicas.tokens, shared),
        lambda request: service.request_seconds(request.input),
        _on_answered(replicas, which),
    )
    columns = {name: np.array([_number(getattr(each, name)) for each in found.requests]) for name in (*TIMES, *COUNTS)}
    scalars = {each.name: getattr(found, each.name) for each in fields(found) if each.name not in ("requests", "gaps")}
    return Part(columns, {**scalars, "gaps": [list(gap) for gap in found.gaps]})


def _on_answered(replicas: Replicas, which: int) -> OnAnswered:
    """Of all replicas, one after the other."""
    progress = replicas.progress
    if progress is None:
        return ignore
    before = sum(len(part.requests) for part in replicas.parts[:which])
    total = sum(len(part.requests) for part in replicas.parts)
    return lambda answered: progress(ANSWERED, before + answered, total)


def outcome(workload: Workload, part: Part) -> Simulated:
    """The simulation that a part tells of."""
    columns = [part.columns[name].tolist() for name in (*TIMES, *COUNTS)]
    requests = tuple(
        Request(
            each.number,
            sent,
            each.input,
            each.output,
            each.hashes,
            each.priority,
            int(cached),
            _time(scheduled),
            _time(first),
            _time(last),
            int(preempted),
            bool(refused),
        )
        for each, sent, scheduled, first, last, cached, preempted, refused in zip(
            workload.requests, *columns, strict=True
        )
    )
    scalars = {name: value for name, value in part.facts.items() if name != "gaps"}
    gaps = tuple((float(seconds), int(count)) for seconds, count in part.facts["gaps"])
    return Simulated(requests=requests, gaps=gaps, **scalars)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _time(value: float) -> float | None:
    return None if math.isnan(value) else value
