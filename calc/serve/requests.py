"""Requests: what each asks of a server, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Request:
    """One request. Seconds from the beginning of the workload; None for what has not come.

    sent: by the client. input, output: tokens of the prompt and of the answer. hashes: of the prompt's blocks, where a
    trace tells them. priority: smaller ones first. cached: tokens of the prompt that were found in the cache.
    scheduled: when the step began in which its prompt was first read; first, last: when its first and last token came.
    preempted: how often its cache was given up for others.
    """

    number: int
    sent: float
    input: int
    output: int
    hashes: tuple[int, ...] = ()
    priority: int = 0
    cached: int = 0
    scheduled: float | None = None
    first: float | None = None
    last: float | None = None
    preempted: int = 0
    refused: bool = field(default=False)

    def again(self) -> Request:
        """The same once more, of which nothing has come."""
        return Request(self.number, self.sent, self.input, self.output, self.hashes, self.priority)

    @property
    def ttft(self) -> float:
        """Seconds from sending to the first token."""
        return (self.first or 0.0) - self.sent

    @property
    def tpot(self) -> float:
        """Seconds a token after the first, as vLLM's and AIPerf's benchmarks have it; 0 for an answer of one token."""
        return ((self.last or 0.0) - (self.first or 0.0)) / (self.output - 1) if self.output > 1 else 0.0

    @property
    def e2e(self) -> float:
        """Seconds from sending to the last token."""
        return (self.last or 0.0) - self.sent
