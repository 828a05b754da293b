"""What torch.distributed.pipelining holds between stages, of three ranks over gloo, to the byte."""

from __future__ import annotations

import json

import numpy as np
import pytest

from calc.memory.rank import Between
from calc.memory.sharding import held_chunks
from calc.memory.totals import plan_peaks, training_ranks
from calc.memory.training import TrainingRank, ranks
from calc.spec import LayerGroup, Mlp
from calc.spec.run import Run
from tests.harness.ranks.started import torchrun
from tests.memory.pipelined import BATCH, CASES, RANKS, SEQ, SPEC, Case

RESULT = 4 * BATCH * SEQ * SPEC.d_model
"""Bytes of what a stage gives the next, in fp32."""


def run_of(case: Case, **more: object) -> Run:
    schedule = "1f1b" if case.schedule == "interleaved" else case.schedule
    plan = {"pp": RANKS, "interleave": case.pieces, "micro_batches": case.micro_batches, "schedule": schedule}
    words = {"batch": BATCH, "seq": SEQ, "recipe": "fp32", "device": "cpu", "phase": "training", "mode": "training"}
    return Run.model_validate(words | plan | more)


def gone_forward(rank: TrainingRank) -> int:
    """What is counted beside weights once a micro-batch has gone forward."""
    return sum(int(rank.moments["forward"][name]) for name in ("activations", "logits", "gradients"))


def test_every_stage_holds_what_is_counted() -> None:
    """1F1B, GPipe and interleaved. Counted too are a message each way, of which there is none while nothing has gone
    back. The tokens of a step are there throughout, of which only those in flight are counted, and all its losses."""
    lines = torchrun("-m", "tests.memory.pipelined", ranks=RANKS).stdout.splitlines()
    measured = dict(json.loads(line) for line in lines)
    for i, case in enumerate(CASES):
        run = run_of(case)
        for rank, counted in enumerate(ranks(SPEC, run.load(), run)):
            first, last = rank == 0, rank == RANKS - 1
            pieces = 1 if case.pieces > 1 and last else held_chunks(run, rank)
            in_flight = min(pieces, case.micro_batches)
            beside = (case.micro_batches - in_flight) * (first or last) * 8 * BATCH * SEQ
            beside += 4 * case.micro_batches * last
            gone_back = case.micro_batches > in_flight
            absent = 0 if gone_back else RESULT * ((not first) + (not last))
            assert measured[rank][i] - beside == gone_forward(counted) - absent, (case, rank)


@pytest.mark.parametrize(
    ("more", "holds"),
    [
        ({"stack": "megatron-core"}, False),
        ({"stack": "fsdp2"}, True),
        ({"stack": "pytorch"}, True),
        ({"schedule": "dualpipe"}, False),
    ],
)
def test_other_pipelines_are_not_torchs(more: dict[str, str], holds: bool) -> None:
    run = run_of(Case("1f1b", 12), **{"recipe": "bf16", "device": "cuda", "pp": 2} | more)
    found = [rank.activations.between for rank in ranks(SPEC, run.load(), run)]
    assert all((each != Between()) == holds for each in found)


def test_buffers_are_those_of_every_micro_batch() -> None:
    """Twice as many micro-batches hold twice as many tensors to receive into, a stage between the ends both kinds."""
    few, many = (run_of(Case("1f1b", n)) for n in (8, 16))
    before, after = (ranks(SPEC, run.load(), run) for run in (few, many))
    more = [b.activations.total - a.activations.total for a, b in zip(before, after, strict=True)]
    assert more == [8 * RESULT, 16 * RESULT, 8 * RESULT]
    assert [a.activations.in_flight for a in before] == [b.activations.in_flight for b in after]


@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_stages_of_a_column_hold_what_they_do_alone(checkpointing: str) -> None:
    """Of three, one layer each, the middle one holds most: it keeps what it reads, for the norm that it begins with,
    where the last keeps a cast of it."""
    kinds = (("front", "pre", 32), ("middle", "pre", 512), ("end", "post", 32))
    layers = tuple(LayerGroup(name=name, count=1, placement=at, channel=Mlp(d_ff=wide)) for name, at, wide in kinds)
    spec = SPEC.model_copy(update={"layers": layers, "schedule": None})
    run = run_of(Case("1f1b", 4), recipe="bf16-mixed", device="cuda", checkpointing=checkpointing)
    found = plan_peaks(spec, run.placed({"pp": np.array([1.0, 3.0])}))
    plans = [run.changed(pp=pp) for pp in (1, 3)]
    assert list(found) == [max(rank.peak for rank in training_ranks(spec, plan)) for plan in plans]
