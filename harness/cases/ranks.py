"""What cases of several ranks share: they run where torchrun has started the ranks, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from calc.spec.fields import DeviceKind
from calc.time.models.collective import CollectiveModel
from harness.cases.case import Case, Ready
from harness.record import Environment, Forecast

if TYPE_CHECKING:
    from calc.time.device.profile import Profile

MOST = 2**16
"""Ranks of a job."""
LEVEL = 0.9
START = "several ranks: torchrun --nproc-per-node RANKS -m harness run --suite collectives|parallel"


class Collective(NamedTuple):
    """One collective of an execution. nbytes: as `calc.time.kernels.kernel.Send` counts them. calls: how often."""

    op: str
    nbytes: float
    calls: float


class RankExecution(NamedTuple):
    """One execution on this rank; its largest relative error, which all ranks ask for at once; and the largest that is
    right."""

    run: Callable[[], Any]
    check: Callable[[], float]
    tolerance: float = 1e-3


class RankCase(Case):
    """A case of `ranks` ranks. Its forecast is what they compute alone, and what they say to one another besides."""

    ranks: int

    def of_rank(self, rank: int, device: DeviceKind) -> RankExecution:
        """This rank's part, once it has joined the group. Errors: NotImplementedError where it cannot run."""
        raise NotImplementedError

    def alone(self, rank: int, device: DeviceKind) -> Callable[[], Any] | None:
        """What this rank computes, with nothing said to others; None where that is nothing."""
        return None

    @property
    def rounds(self) -> float:
        """How often what is computed alone fits into an execution, waiting included."""
        return 1.0

    def collectives(self) -> Sequence[Collective]:
        """Every collective of an execution that computing waits for."""
        raise NotImplementedError

    def expected(self, alone: float, models: dict[str, CollectiveModel], source: str) -> Forecast | None:
        """What is predicted of it. alone: seconds of what a rank computes. models: of collectives among `ranks`, by
        their names; None where one is missing. source: what these rest on."""
        collectives = self.collectives()
        if any(each.op not in models for each in collectives):
            return None
        parts = {"compute": alone * self.rounds} if alone else {}
        low = high = alone * self.rounds
        for each in collectives:
            seconds = each.calls * models[each.op].seconds(each.nbytes, self.ranks)
            down, up = models[each.op].interval(LEVEL)
            low, high = low + seconds * down, high + seconds * up
            parts[each.op] = parts.get(each.op, 0.0) + seconds
        total = sum(parts.values())
        bound = "compute" if parts.get("compute", 0.0) > total / 2 else "network"
        return Forecast(seconds=total, low=low, high=high, level=LEVEL, source=source, bound=bound, by_component=parts)

    def forecast(self, profile: Profile) -> Forecast | None:
        return None

    def unsupported(self, environment: Environment) -> str | None:
        return START

    def ready(self, device: DeviceKind) -> Ready:
        raise NotImplementedError(START)

    def _few(self) -> None:
        self.require("ranks", 2 <= self.ranks <= MOST, f"a whole number from 2 to {MOST}")
