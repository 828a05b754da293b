"""Weights that FSDP2 gathers: how often in a step, and when they stay so, held to four ranks over gloo."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

import calc
from calc.errors import Refused
from calc.memory.sharding import stages
from calc.memory.states import states
from calc.memory.totals import memory_ranks
from calc.spec.run import Run
from calc.time import predict
from calc.time.step.plans import step_times
from tests.harness.ranks.started import torchrun
from tests.memory.gathered import CASES, LAYERS, PIECES, SHARDS, STAGES, Case, Found

LLAMA = calc.load_model("llama-3-8b")
PARAMETERS = 8_030_261_248


@cache
def seen() -> dict[Case, Found]:
    """What torch does."""
    (line,) = torchrun("-m", "tests.memory.gathered", ranks=STAGES * SHARDS).stdout.splitlines()
    return {case: Found(*each) for case, each in zip(CASES, json.loads(line), strict=True)}


def run_of(case: Case) -> Run:
    piped = {"pp": STAGES, "interleave": PIECES if case.schedule == "interleaved" else 1} if case.schedule else {}
    schedule = "gpipe" if case.schedule == "gpipe" else "1f1b"
    words = {"dp": SHARDS, "zero": case.zero, "micro_batches": case.micro_batches, "schedule": schedule, **piped}
    return Run.model_validate({"phase": "training", "mode": "training", "stack": "fsdp2", "seq": 512} | words)


@pytest.mark.parametrize("case", CASES)
def test_weights_stay_gathered_as_torch_has_them(case: Case) -> None:
    """All layers behind forward, and behind backward; where pieces of a stage are interleaved, another one's may be
    whole too."""
    run, found = run_of(case), seen()[case]
    for own in states(LLAMA, run, stages(LLAMA, run)):
        whole = own.elements * 2 - own.open
        assert own.ahead == (whole if found.forth >= LAYERS * run.interleave else 0)
        assert own.behind == (whole if found.back else 0)


def test_ranks_keep_a_part_alone_under_either_setting() -> None:
    """ZeRO-2 under FSDP: a 64th in fp32, and from forward to backward all in bf16; a rank of DDP has all in fp32."""
    words: dict[str, Any] = {"phase": "training", "mode": "training", "dp": 64, "zero": 2, "recipe": "bf16-mixed"}
    for stack in ("fsdp2", "torchtitan", "llm-foundry"):
        (rank,) = memory_ranks(LLAMA, Run.model_validate(words | {"stack": stack}))
        kept = {name: live["weights"] for name, live in rank.moments.items()}
        assert rank.terms["weights"] == kept["forward"] == 4 * PARAMETERS // 64 + 2 * PARAMETERS
        assert kept["optimizer step"] == 4 * PARAMETERS // 64
        assert kept["optimizer step"] < kept["backward, first layer"] < kept["forward"]
    (rank,) = memory_ranks(LLAMA, Run.model_validate(words))
    assert rank.terms["weights"] == 4 * PARAMETERS


def test_a_pipeline_that_divides_layers_again_has_them_whole_between_micro_batches() -> None:
    """ZeRO-3: of a stage that has gone back all layers, while fewer micro-batches wait than when the next is there."""
    words = {"phase": "training", "mode": "training", "stack": "torchtitan", "dp": 8, "pp": 4, "micro_batches": 8}
    divided, whole = (memory_ranks(LLAMA, Run.model_validate(words | {"zero": zero}))[0].moments for zero in (3, 2))
    assert divided["forward"]["weights"] < whole["forward"]["weights"] == whole["next forward"]["weights"]
    assert divided["next forward"] == whole["next forward"]
    assert whole["next forward"]["activations"] < whole["forward"]["activations"]


@pytest.mark.parametrize("case", CASES)
def test_weights_are_gathered_as_often_as_torch_does(case: Case) -> None:
    """Once a micro-batch under ZeRO-2, twice under ZeRO-3; in a pipeline once a step, or once more than there are
    micro-batches. ZeRO-1 gathers what was updated once."""
    sizes = ("dp", "pp", "zero", "micro_batches", "interleave", "schedule")
    plan = {name: getattr(run_of(case), name) for name in sizes}
    once = _gathering(plan | {"zero": 1})
    assert _gathering(plan) == pytest.approx(seen()[case].gathered * once)


def _gathering(plan: dict[str, Any]) -> float:
    """Seconds of a step in which weights are gathered, hidden ones too."""
    step = predict(LLAMA, "h100-sxm", phase="training", stack="fsdp2", cluster="dgx-h100", seq=512, **plan)
    found = (row for row in step.kernels if (row.kernel.path, row.kernel.function) == ("data", "all_gather"))
    return sum(row.seconds for row in found)


@pytest.mark.parametrize("stack", ["megatron-core", "megatron-core-0.18", "megatron-lm"])
def test_no_stage_of_a_pipeline_is_megatron_fsdps(stack: str) -> None:
    """Refused of one plan with the way out, and among many those alone that have both."""
    words: dict[str, Any] = {"phase": "training", "stack": stack, "cluster": "dgx-h100", "dp": 8, "seq": 512}
    with pytest.raises(Refused, match="0 or 1 in a pipeline"):
        predict(LLAMA, "h100-sxm", **words, pp=2, zero=3)
    found = step_times(LLAMA, "h100-sxm", **words, pp=[1, 1, 2, 2], zero=[1, 3, 1, 3])
    assert [seconds > 0 for seconds in found.seconds] == [True, True, True, False]
