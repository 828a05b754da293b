"""Run by torchrun: what a stage of torch.distributed.pipelining holds after each pass forward of a step, at most.

Prints a line of JSON a rank: a number of bytes for each of the cases, which tests import too.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

import torch
from torch import distributed
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.nn import functional

from harness.cases.running import built
from harness.cases.stages import stage_of
from tests.conventions.shapes import gpt
from tests.memory.live import Live

RANKS, BATCH, SEQ, LAYERS = 3, 2, 16, 6
SPEC = gpt(32, LAYERS, 4, 96, max_seq_len=SEQ, tied=False)
SCHEDULES: dict[str, Any] = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe, "interleaved": ScheduleInterleaved1F1B}


class Case(NamedTuple):
    schedule: str
    micro_batches: int
    pieces: int = 1


CASES = (Case("1f1b", 3), Case("1f1b", 7), Case("gpipe", 5), Case("interleaved", 3, 2))


def loss_of(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def most(case: Case, rank: int) -> int:
    """Bytes beside weights that are live once a micro-batch has gone forward, the most of the first step."""
    device, pieces = torch.device("cpu"), case.pieces * RANKS
    parts = [stage_of(built(SPEC, device, "fp32"), place, pieces) for place in range(rank, pieces, RANKS)]
    stages = [PipelineStage(part, rank + i * RANKS, pieces, device) for i, part in enumerate(parts)]
    schedule = SCHEDULES[case.schedule](stages if case.pieces > 1 else stages[0], case.micro_batches, loss_fn=loss_of)
    tokens = torch.randint(96, (case.micro_batches * BATCH, SEQ))
    live, found = Live(torch.nn.ModuleList(parts)), []
    with_loss = schedule._maybe_compute_loss

    def gone_forward(*given: Any) -> None:
        with_loss(*given)
        found.append(live.now)

    schedule._maybe_compute_loss = gone_forward
    last = {"target": tokens, "losses": []} if rank == RANKS - 1 else {}
    with live:
        schedule.step(*([tokens] if rank == 0 else []), **last, return_outputs=False)
    return max(found)


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    own = distributed.get_rank()
    held = [most(case, own) for case in CASES]
    sys.stdout.write(json.dumps([own, held]) + "\n")
    distributed.destroy_process_group()
