"""Run by torchrun: the harness with steps of tiny models, each measured in one burst, for tests that read no times.

A step of the suite as it is takes seconds on a processor, and is come back to five times.
"""

from __future__ import annotations

from collections.abc import Iterator

from calc.spec.fields import DeviceKind
from harness.__main__ import main
from harness.cases.collectives import ExchangeCase
from harness.cases.parallel import ParallelTrainingCase
from harness.cases.ranks import RankCase
from harness.ranks import timing
from harness.ranks.start import Place
from harness.ranks.suites import RANK_SUITES

SEQ, BATCH = 64, 2


def tiny(place: Place, device: DeviceKind) -> Iterator[RankCase]:
    yield ParallelTrainingCase("tiny-llama", SEQ, BATCH, place.ranks, "ddp")
    yield ExchangeCase("tiny-moe", "experts", SEQ * place.ranks, 1, place.ranks)


if __name__ == "__main__":
    RANK_SUITES["parallel"] = tiny
    timing.BURSTS = 1
    main()
