"""Passes that share their chains' kernels against each of them worked out alone."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from calc.spec.run import Run
from calc.spec.stack import load_stack
from calc.time.device.speed_of import speed_of
from calc.time.kernels.kernel import DIRECTIONS
from calc.time.kernels.timing import LEVEL
from calc.time.step import chain_times
from calc.time.step.one_pass import Pass, Question, forget, passes
from calc.time.step.timed_run import timed_run
from tests.plan.questions import small_model

SPEC = small_model(n_experts=4, top_k=2, d_expert=64)
STEP = {"phase": "training", "cluster": "dgx-h100", "seq": 256, "dp": 4, "recipe": "bf16-master"}


def run_of(**words: Any) -> Run:
    return timed_run(SPEC, None, **{**STEP, "stack": "megatron-core", **words})


def ways() -> list[Run]:
    """Every way to divide a small mixture of experts and to recompute it, that a rank's share can tell apart."""
    found = []
    for tp, cp, ep, checkpointing in product((1, 2), (1, 2), (1, 2, 4), ("none", "selective", "full")):
        found.append(run_of(tp=tp, cp=cp, ep=ep, checkpointing=checkpointing))
    found += [run_of(tp=2, sequence_parallel=False), run_of(checkpointing="full", checkpoint_every=2)]
    found += [run_of(tp=2, cp=2, ep=4, checkpointing="full", checkpoint_every=2), run_of(tp=2, recompute=("moe_act",))]
    found += [run_of(tp=2, ep=4, recompute=modules) for modules in (("moe_act",), ("layernorm", "moe"))]
    other = load_stack("megatron-core").model_copy(update={"accumulates": False})
    return [*found, run_of(stack=other), run_of(experts="loop"), run_of(experts="loop", ep=2)]


def asked(runs: list[Run], question: Question) -> list[Pass]:
    forget()
    return passes(question, runs)


@pytest.mark.parametrize("order", [1, -1])
def test_passes_that_share_kernels_are_those_worked_out_alone(order: int) -> None:
    question = Question(SPEC, speed_of("h100-sxm"), "", DIRECTIONS, LEVEL)
    runs = ways()[::order]
    together = asked(runs, question)
    shared = sum(len(known) for known in chain_times.KNOWN.values())
    alone = 0
    for run, one in zip(runs, together, strict=True):
        (own,) = asked([run], question)
        alone += sum(len(known) for known in chain_times.KNOWN.values())
        assert one == own
    assert shared < alone / 2
