"""Run by torchrun: how often FSDP2 gathers layers in a step, and when they stay so, alone and beside
torch.distributed.pipelining.

Prints a line of JSON: what is found of each of the cases, which tests import too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

STAGES, SHARDS, LAYERS, WIDTH, BATCH = 2, 2, 3, 8, 2


SCHEDULES: dict[str, Any] = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe, "interleaved": ScheduleInterleaved1F1B}
PIECES = 2
"""Of a stage, where they are interleaved."""


class Case(NamedTuple):
    """schedule: of a pipeline; empty: none, and micro-batches follow one another."""

    zero: int
    micro_batches: int
    schedule: str = ""


CASES = (
    *(Case(zero, n) for zero in (2, 3) for n in (1, 4)),
    *(Case(zero, n, schedule) for zero in (2, 3) for n in (2, 6) for schedule in SCHEDULES),
)


class Found(NamedTuple):
    """gathered: how often all layers of a rank are gathered in a step. forth, back: how many of them are whole behind
    a micro-batch's forward, and behind its backward, the most of a step."""

    gathered: int
    forth: int
    back: int


class Gatherings(TorchDispatchMode):
    """Counts them."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.c10d._allgather_base_.default
        return func(*args, **(kwargs or {}))


def found(case: Case, mesh: DeviceMesh) -> Found:
    """What one step shows."""
    pieces = PIECES if case.schedule == "interleaved" else 1
    models = [_sharded(case, mesh) for _ in range(pieces)]
    given = torch.randn(case.micro_batches * BATCH, WIDTH)
    whole: dict[str, list[int]] = {"forth": [], "back": []}

    def note(way: str) -> None:
        whole[way].append(sum(not isinstance(layer.weight, DTensor) for model in models for layer in model))

    alone = partial(_accumulated, case, models[0], given, note)
    step = _pipelined(case, models, given, mesh, note) if case.schedule else alone
    step()  # in which stages learn what shapes they exchange
    with Gatherings() as seen:
        step()
    assert seen.count % (LAYERS * pieces) == 0
    return Found(seen.count // (LAYERS * pieces), *(max(some) for some in whole.values()))


def _sharded(case: Case, mesh: DeviceMesh) -> nn.Sequential:
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    for module in (*model, model):
        fully_shard(module, mesh=mesh["shards"], reshard_after_forward=case.zero == 3)
    return model


def _accumulated(case: Case, model: nn.Sequential, given: torch.Tensor, note: Callable[[str], None]) -> None:
    for part in given.chunk(case.micro_batches):
        loss = model(part).sum()
        note("forth")
        loss.backward()
        note("back")


class Noted(PipelineStage):
    """A stage that tells when a micro-batch has gone forward, or back."""

    note: Callable[[str], None]

    def forward_one_chunk(self, *given: Any, **words: Any) -> Any:
        result = super().forward_one_chunk(*given, **words)
        self.note("forth")
        return result

    def backward_one_chunk(self, *given: Any, **words: Any) -> None:
        super().backward_one_chunk(*given, **words)
        self.note("back")


def _pipelined(
    case: Case, models: list[nn.Sequential], given: torch.Tensor, mesh: DeviceMesh, note: Callable[[str], None]
) -> Callable[[], Any]:
    rank = mesh["stages"].get_local_rank()
    group, pieces, device = mesh["stages"].get_group(), STAGES * len(models), torch.device("cpu")
    stages = [Noted(model, rank + i * STAGES, pieces, device, group=group) for i, model in enumerate(models)]
    for stage in stages:
        stage.note = note
    own = stages if len(stages) > 1 else stages[0]
    schedule = SCHEDULES[case.schedule](own, case.micro_batches, loss_fn=lambda result, _: result.sum())
    last = {"target": given} if rank == STAGES - 1 else {}
    return partial(schedule.step, *([given] if rank == 0 else []), **last)


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    ranks = init_device_mesh("cpu", (STAGES, SHARDS), mesh_dim_names=("stages", "shards"))
    each = [found(case, ranks) for case in CASES]
    if distributed.get_rank() == 0:
        sys.stdout.write(json.dumps(each) + "\n")
    distributed.destroy_process_group()
