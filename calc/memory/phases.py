"""Whether what is timed fits: the memory of one pass, of one token or of a step of training, beside a device's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from calc.blocks.build import source_length
from calc.errors import Refused
from calc.memory.cache import cache_on
from calc.memory.rank import Rank
from calc.memory.serving import servers, weights_held
from calc.memory.sharding import stages
from calc.memory.states import states
from calc.memory.totals import training_ranks
from calc.memory.verdict import Verdict, largest, on_host
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.units import binary


@dataclass(frozen=True, slots=True)
class PhaseMemory:
    """Bytes of the GPU that holds the most while one thing runs.

    peak: at the highest moment; None where what is live is not known, and why is in `unknown`. held: what is there all
    the time, weights and caches or the states of training. budget: what the device has; None where that is not known.
    live: at the peak, by term. prompts: in decode, what reading all prompts in one pass would take before it.
    host, host_at_most: of the host's memory, and where its allocator rounds up; None where nothing is trained.
    host_room: a GPU's share of what its machine has, None where that is not known.
    """

    peak: int | None
    held: int
    budget: int | None
    live: Mapping[str, int]
    unknown: str = ""
    prompts: int | None = None
    host: int | None = None
    host_at_most: int | None = None
    host_room: int | None = None

    @property
    def overflows_host(self) -> bool:
        """Whether what waits on the host is more than its machines are known to have."""
        return self.host_room is not None and (self.host_at_most or 0) > self.host_room

    @property
    def fits(self) -> bool | None:
        """None where it cannot be told."""
        if self.overflows_host:
            return False
        if self.budget is None:
            return None
        if self.peak is None:
            return False if self.held > self.budget else None
        return self.peak <= self.budget

    def sentence(self) -> str:
        """The verdict in a few words, and what to ask where it does not fit."""
        return self._verdict() + ("; see `python -m calc memory`" if self.fits is False else "")

    def _verdict(self) -> str:
        room = "a device whose memory is not known" if self.budget is None else binary(self.budget)
        verdict = {True: "fits: ", False: "does not fit: ", None: ""}[self.fits]
        if self.overflows_host and self.host_room is not None:
            return verdict + on_host(self.host_at_most or 0, self.host_room)
        if self.peak is None:
            return f"{verdict}{binary(self.held)} held all the time, of {room}; not counted: {self.unknown}"
        term, size = largest(self.live)
        return f"{verdict}{binary(self.peak)} at the peak, of {room}; the largest term is {term}, {binary(size)}"


def phase_ranks(spec: ModelSpec, run: Run) -> list[Rank]:
    """Every kind of rank while what a time is asked for runs: all moments of a step of training, or those of the one
    pass of a server. `forward` keeps no cache and has logits at all positions; in decode, prompts have been read.

    Errors: Refused as `memory_ranks`, but for modules that predict further tokens.
    """
    if run.trains:
        return training_ranks(spec, run)
    if run.phase == "decode":
        return [rank.during("decode") for rank in servers(spec, _with_token(spec, run))]
    found = servers(spec, run.changed(logits="all") if run.phase == "forward" else run)
    ranks = [rank.during("prefill" if spec.decodes else "pass") for rank in found]
    return [_without_cache(rank) for rank in ranks] if run.phase == "forward" else ranks


def phase_memory(spec: ModelSpec, run: Run, budget: int | None) -> PhaseMemory:
    """What a run whose sizes are numbers holds while it is timed, beside `budget` bytes of a GPU."""
    try:
        found = Verdict(tuple(phase_ranks(spec, run)), budget)
    except Refused as refused:
        return PhaseMemory(None, _held(spec, run), budget, {}, str(refused))
    live = found.live
    once = None
    if run.phase == "decode":
        once = Verdict(tuple(servers(spec, _with_token(spec, run)))).worst.peak
    room = None if run.cluster is None else run.cluster.host_room(run.gpus)
    hosts = found.host, found.host_at_most, None if room is None else int(room)
    return PhaseMemory(found.worst.peak, _held(spec, run), budget, live, "", once, *hosts)


def _with_token(spec: ModelSpec, run: Run) -> Run:
    """The run of sequences that have their next token too; what an encoder has read is as long as it was before."""
    source = source_length(spec, run.seq) if run.source_seq is None else run.source_seq
    return run.changed(seq=run.context + 1, source_seq=source)


def _without_cache(rank: Rank) -> Rank:
    moments = {name: {term: n for term, n in live.items() if term != "kv_cache"} for name, live in rank.moments.items()}
    return replace(rank, moments=moments)


def _held(spec: ModelSpec, run: Run) -> int:
    """What is there all the time, of the rank that has the most: the least that a run takes."""
    kinds = stages(spec, run)
    if run.trains:
        return max(int(each.weights + each.gradients + each.optimizer) for each in states(spec, run, kinds))
    cached = {"prefill": run, "decode": _with_token(spec, run)}.get(run.phase)
    caches = [0 if cached is None else cache_on(spec, cached, stage) for stage in kinds]
    return max(int(weights_held(spec, run, stage) + cache) for stage, cache in zip(kinds, caches, strict=True))
