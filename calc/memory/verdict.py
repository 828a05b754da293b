"""Whether a plan fits: what the GPU that holds the most has live at its peak, beside a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calc.memory.rank import Rank
from calc.memory.totals import memory_ranks, worst
from calc.memory.training import TrainingRank
from calc.spec import ModelSpec
from calc.spec.catalogue import device_names, load_device
from calc.spec.run import Run
from calc.units import binary, parse_bytes, parse_share

RUNTIME = " before the 0.5 to 1 GiB of CUDA's context"
LEAST_CONTEXT = 2**29
"""What is not counted: the runtime's own memory."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Exact bytes of every kind of rank under one plan.

    budget: bytes that one GPU gives; None where none is asked for. where: what gives them, as a sentence names it.
    host_room: a GPU's share of what its machine has; None where that is not known.
    """

    ranks: tuple[Rank, ...]
    budget: int | None = None
    where: str = ""
    host_room: int | None = None

    @property
    def worst(self) -> Rank:
        """The kind of rank with the highest peak."""
        return worst(list(self.ranks))

    @property
    def moment(self) -> str:
        """When the worst rank holds the most; the first such moment."""
        timeline = self.worst.timeline
        return max(timeline, key=lambda name: timeline[name])

    @property
    def live(self) -> Mapping[str, int]:
        """What the worst rank holds at that moment, by term."""
        return self.worst.moments[self.moment]

    @property
    def reserved(self) -> int | None:
        """What PyTorch's allocator then holds of the worst rank's GPU, in training, where that is known."""
        return self.worst.reserved if isinstance(self.worst, TrainingRank) else None

    @property
    def host(self) -> int | None:
        """Bytes of the host's memory for each GPU of the rank that takes the most of it; None where none trains."""
        return max((rank.host for rank in self.ranks if isinstance(rank, TrainingRank)), default=None)

    @property
    def host_at_most(self) -> int | None:
        """The same with what the allocator of pinned memory may round up."""
        return max((rank.host_at_most for rank in self.ranks if isinstance(rank, TrainingRank)), default=None)

    @property
    def overflows_host(self) -> bool:
        """Whether what waits on the host is more than its machines are known to have."""
        return self.host_room is not None and (self.host_at_most or 0) > self.host_room

    @property
    def fits(self) -> bool | None:
        """None where it cannot be told."""
        if self.overflows_host:
            return False
        return None if self.budget is None else self.worst.peak <= self.budget

    @property
    def left(self) -> int | None:
        """Bytes of the budget that the peak leaves; negative where it goes beyond."""
        return None if self.budget is None else self.budget - self.worst.peak

    def sentence(self) -> str:
        """The verdict in plain words, and the largest term."""
        term, size = largest(self.live)
        peak = f"{binary(self.worst.peak)} at the peak"
        biggest = f"the largest term is {term}, {binary(size)}"
        if self.overflows_host:
            said = on_host(self.host_at_most or 0, self.host_room or 0)
            return f"does not fit: {said}; {peak}"
        if self.left is None:
            return f"{peak} ({self.moment}); {biggest}"
        if self.left >= 0:
            tight = self.reserved is not None and self.reserved > (self.budget or 0)
            but = f", but PyTorch's allocator would reserve {binary(self.reserved or 0)}" * tight
            return f"fits in {self.where}: {peak}, {binary(self.left)} left{RUNTIME}{but}; {biggest}"
        return f"does not fit in {self.where}: {peak}, {binary(-self.left)} too much; {biggest}"


def on_host(host: int, room: int) -> str:
    """What is said where a machine has no room for so many bytes of each of its GPUs."""
    share = f"a GPU's share of its machine's memory, {binary(room)}"
    return f"up to {binary(host)} of each GPU on the host, of {share}"


FAMILIES = ("Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell", "CDNA")
"""Architectures of GPUs whose memory PyTorch allocates as it is counted here."""


def verdict(spec: ModelSpec, run: Run, budget: int | None = None, where: str = "") -> Verdict:
    """What the run takes, beside `budget` bytes a GPU.

    Errors: Refused for a plan that does not divide the model, and for blocks of which it is not known what they keep.
    """
    room = None if run.cluster is None else run.cluster.host_room(run.gpus)
    named = where or ("" if budget is None else binary(budget))
    return Verdict(tuple(memory_ranks(spec, run)), budget, named, None if room is None else int(room))


def holders(peak: int, dtype: str | None = None) -> list[str]:
    """The GPUs of the catalogue whose memory holds so many bytes, the smallest first. TPUs, Gaudi and Apple's chips run
    other kernels, and what shares its memory with the system cannot promise it. dtype: what they have a peak for."""
    known = map(load_device, device_names())
    devices = [each for each in known if each.architecture.startswith(FAMILIES) and not each.shared]
    able = [each for each in devices if dtype is None or dtype in each.known_peaks]
    return [each.name for each in sorted(able, key=lambda each: each.usable) if each.usable >= peak + LEAST_CONTEXT]


def largest(live: Mapping[str, int]) -> tuple[str, int]:
    """The term of which the most is live."""
    return max(live.items(), key=lambda item: item[1])


def usable(memory: int, fraction: str = "1") -> int:
    """Whole bytes of `memory` that a fraction of it is, 0.9 or 90%. Errors: Refused for none above 0, up to 1."""
    return int(memory * parse_share(fraction, "--memory-fraction"))


def budget_bytes(text: str) -> int:
    """The whole bytes of a budget such as "80GiB". Errors: Refused for what is no number of bytes above 0."""
    return parse_bytes(text, "--budget")
