"""Run by torchrun: every kind of case holds on every rank what one process computes. Prints a line a case."""

from __future__ import annotations

from harness.cases.collectives import CollectiveCase, ExchangeCase
from harness.cases.parallel import ParallelTrainingCase
from harness.cases.ranks import RankCase
from harness.ranks.start import joined, place_of
from harness.ranks.suites import OPS
from harness.ranks.timing import worst


def cases(ranks: int) -> list[RankCase]:
    found: list[RankCase] = [CollectiveCase(op, 8192 * ranks, ranks) for op in OPS]
    for strategy in ("ddp", "fsdp", "tensor"):
        found.append(ParallelTrainingCase("tiny-llama", 12, ranks, ranks, strategy))
    found.append(ParallelTrainingCase("tiny-gpt", 12, 1, ranks, "ddp"))
    found.append(ParallelTrainingCase("tiny-llama", 12, 2, ranks, "pipeline", micro_batches=3))
    found += [ExchangeCase("tiny-llama", "context", 16 * ranks, 1, ranks)]
    return [*found, ExchangeCase("tiny-moe", "experts", 16 * ranks, 1, ranks)]


def main() -> None:
    place = place_of()
    assert place is not None
    with joined(place, "cpu"):
        for case in cases(place.ranks):
            made = case.of_rank(place.rank, "cpu")
            made.run()
            fresh = case.of_rank(place.rank, "cpu")
            error = worst(fresh.check(), "cpu")
            alone = case.alone(place.rank, "cpu")
            if alone is not None:
                alone()
            if place.first:
                print(case.id, f"{error:.3g}", flush=True)


main()
