"""Run by torchrun: every kind of case holds on every rank what one process computes. Prints a line a case."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from torch.distributed.tensor.debug import CommDebugMode

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


def uncounted(case: RankCase, run: Callable[[], Any]) -> int:
    """How many of the collectives that torch sees in a step the forecast does not count, and the other way round."""
    found: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hooks of the counter on modules that return a record
        with CommDebugMode() as seen:
            run()
    for called, times in seen.get_comm_counts().items():
        op = str(called).rpartition(".")[2].replace("_", "")
        found[next(name for name in ("allgather", "reducescatter", "allreduce", op) if op.startswith(name))] += times
    for each in case.collectives():
        found[each.op.replace("_", "")] -= round(each.calls)
    return sum(map(abs, found.values()))


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
            # DDP sums in buckets, which a forecast of all their bytes need not know; a pipeline's messages are none.
            if isinstance(case, ParallelTrainingCase) and case.strategy in ("fsdp", "tensor"):
                wrong = uncounted(case, fresh.run)
                if place.first:
                    print("collectives of", case.id, wrong, flush=True)


main()
