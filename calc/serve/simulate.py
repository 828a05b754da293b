"""A workload through servers, request by request: colocated, or prompts on some GPUs and answers on others."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from calc.serve.prefixes import Prefixes
from calc.serve.requests import Request
from calc.serve.server import Server
from calc.serve.workload import Workload

MakeServer = Callable[[], Server]
OnAnswered = Callable[[int], None]


def ignore(answered: int) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of a workload. seconds: from the first request to the last answer. gaps: seconds between tokens of
    one sequence, each with how many there were."""

    requests: tuple[Request, ...]
    seconds: float
    gaps: tuple[tuple[float, int], ...]
    peak_blocks: int
    blocks: int
    preemptions: int
    reading: float
    decoding: float

    @property
    def answered(self) -> list[Request]:
        """Requests that were finished."""
        return [each for each in self.requests if each.last is not None]


def simulate(
    workload: Workload, make: MakeServer, delay: Callable[[Request], float], on_answered: OnAnswered = ignore
) -> Simulated:
    """One replica. delay: seconds from a request's sending until the server has it. on_answered: now and again, how
    many requests have been answered."""
    server = make()
    clients = _Clients(workload, delay)
    while not (server.idle and clients.quiet):
        if server.idle:
            server.time = max(server.time, clients.next)
        clients.deliver(server.time, server.add)
        if server.idle:
            continue
        for request in server.advance(clients.next):
            clients.answered(request)
        on_answered(clients.done)
    return summed(clients, [server], [server])


@dataclass(frozen=True, slots=True)
class Apart:
    """Prompts and answers on different servers. transfer: seconds for a request's cache from one to the other."""

    prefill: Sequence[Server]
    decode: Sequence[Server]
    transfer: Callable[[Request], float]


def simulate_apart(
    workload: Workload, apart: Apart, delay: Callable[[Request], float], on_answered: OnAnswered = ignore
) -> Simulated:
    """Prompts go to the prefill server that has the fewest, then with their cache to such a decode server. on_answered:
    as `simulate` has it."""
    clients = _Clients(workload, delay)
    coming: list[tuple[float, int, Request]] = []
    everyone = [*apart.prefill, *apart.decode]
    originals: dict[int, Request] = {}

    def read(request: Request) -> bool:
        originals[request.number] = request
        server = min(apart.prefill, key=lambda each: each.load)
        server.time = max(server.time, request.sent + delay(request)) if server.idle else server.time
        added = server.add(replace(request, output=1))
        request.refused = not added
        return added

    while True:
        server, others = _earliest(everyone)
        outside = min(clients.next, coming[0][0] if coming else math.inf)
        if server is None:
            if math.isinf(outside):
                break
            _arrive(outside, clients, coming, apart, read)
            continue
        if outside <= server.time:
            _arrive(server.time, clients, coming, apart, read)
            continue
        for request in server.advance(min(outside, max(others, server.time + 1e-9))):
            if server in apart.decode:
                clients.answered(request)
                continue
            own = originals[request.number]
            own.scheduled, own.first = request.scheduled, (request.last or 0.0) + apart.transfer(request)
            if own.output == 1:
                own.last = own.first
                clients.answered(own)
            else:
                heapq.heappush(coming, (own.first, own.number, own))
        on_answered(clients.done)
    return summed(clients, apart.prefill, apart.decode)


def _earliest(servers: Sequence[Server]) -> tuple[Server | None, float]:
    """Of those that have something to do the one whose turn it is, and when that of the next one is."""
    found, first, second = None, math.inf, math.inf
    for each in servers:
        if each.time < second and not each.idle:
            if each.time < first:
                found, first, second = each, each.time, first
            else:
                second = each.time
    return found, second


def _arrive(
    now: float,
    clients: _Clients,
    coming: list[tuple[float, int, Request]],
    apart: Apart,
    read: Callable[[Request], bool],
) -> None:
    """Hand over what has come by `now`: requests to who reads prompts, caches to who answers."""
    clients.deliver(now, read)
    while coming and coming[0][0] <= now:
        at, _, request = heapq.heappop(coming)
        server = min(apart.decode, key=lambda each: each.load)
        server.time = max(server.time, at) if server.idle else server.time
        if not server.add(request, read=request.input, left=request.output - 1):
            request.first = None
            clients.answered(request)


class _Clients:
    """Who sends requests: at times of their own, or each when the last one is answered."""

    def __init__(self, workload: Workload, delay: Callable[[Request], float]) -> None:
        self.requests = tuple(each.again() for each in workload.requests)
        self.delay = delay
        self.waiting: list[tuple[float, int, Request]] = []
        self.unsent, self.done = 0, 0
        for _ in range(workload.at_once):
            self._send(None)

    def _send(self, now: float | None) -> None:
        if self.unsent >= len(self.requests):
            return
        request = self.requests[self.unsent]
        self.unsent += 1
        request.sent = request.sent if now is None else now
        heapq.heappush(self.waiting, (request.sent + self.delay(request), request.number, request))

    @property
    def next(self) -> float:
        """When the next request reaches a server."""
        return self.waiting[0][0] if self.waiting else math.inf

    @property
    def quiet(self) -> bool:
        """Whether nobody will send anything more."""
        return not self.waiting

    def deliver(self, now: float, add: Callable[[Request], bool]) -> None:
        """Hand over what has come by `now`; a client whose request cannot be served sends the next."""
        while self.waiting and self.waiting[0][0] <= now:
            at, _, request = heapq.heappop(self.waiting)
            if not add(request):
                self._send(at)

    def answered(self, request: Request) -> None:
        """A client has its answer."""
        self.done += 1
        self._send(request.last)


def summed(clients: _Clients, prefill: Sequence[Server], decode: Sequence[Server]) -> Simulated:
    """All that is asked of servers that are done."""
    everyone = list({id(server): server for server in (*prefill, *decode)}.values())
    answered = [each for each in clients.requests if each.last is not None]
    start = min((each.sent for each in clients.requests), default=0.0)
    return Simulated(
        requests=clients.requests,
        seconds=max((each.last or 0.0 for each in answered), default=start) - start,
        gaps=tuple(gap for server in decode for gap in server.gaps.seen),
        peak_blocks=sum(server.pages.peak for server in decode),
        blocks=sum(server.rules.blocks for server in decode),
        preemptions=sum(server.preemptions for server in everyone),
        reading=sum(server.busy["reading"] for server in prefill),
        decoding=sum(server.busy["decoding"] for server in decode),
    )


def shared_prefixes(workload: Workload, tokens: int) -> Prefixes | None:
    """A cache of prefixes where a workload tells hashes of blocks of so many tokens."""
    return Prefixes(tokens) if any(each.hashes for each in workload.requests) else None
