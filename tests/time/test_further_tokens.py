"""Modules that predict further tokens in a step of training: where they stand, and what is held and summed of them."""

from __future__ import annotations

from typing import Any

import pytest

from calc.architectures.models import load_model
from calc.memory.phases import phase_ranks
from calc.quantities.parameters import parameters
from calc.spec.run import Run
from calc.time import Prediction, predict, step_times
from calc.time.economics import checkpoint_bytes
from calc.time.step.timed_run import timed_run

DEEPSEEK = load_model("deepseek-v3")
MODULE = parameters(DEEPSEEK, mtp=True)["mtp"]
WORDS: dict[str, Any] = {
    "phase": "training",
    "cluster": "h800",
    "stack": "megatron-core",
    "recipe": "bf16-master",
    "seq": 4096,
    "micro_batches": 32,
    "checkpointing": "full",
}


def both(**words: Any) -> tuple[Prediction, Prediction]:
    """Steps without and with the module."""
    plain, more = (predict(DEEPSEEK, "h800", **WORDS, **words, mtp=mtp) for mtp in (False, True))
    return plain, more


def run_of(**words: Any) -> Run:
    return timed_run(DEEPSEEK, None, **WORDS, **words)


def summed(found: Prediction, function: str) -> float:
    return sum(float(row.kernel.bytes * row.kernel.calls) for row in found.kernels if row.kernel.function == function)


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_every_parameter_of_a_module_is_updated(zero: int) -> None:
    """Of one stage, whose ranks hold all of a module but for experts, a 32nd of them each."""
    experts = 256 * 3 * 7168 * 2048
    dense, divided = MODULE - experts, experts / 32
    plain, more = both(dp=256, ep=32, zero=zero)
    per_rank = (dense / 256 + divided / 8) if zero else dense + divided
    # Read and written: a master copy and two moments in fp32; read, a gradient in fp32; written, a weight in bf16.
    assert summed(more, "adamw") - summed(plain, "adamw") == pytest.approx(per_rank * (2 * 12 + 4 + 2), rel=1e-6)
    reduced = "reduce_scatter" if zero else "all_reduce"
    assert summed(more, reduced) - summed(plain, reduced) == pytest.approx((dense + divided) * 4, rel=1e-6)


def test_the_stage_of_the_head_holds_it() -> None:
    """Of every stage's weights, gradients and states in training, 18 bytes a parameter under this recipe."""
    without, beside = (phase_ranks(DEEPSEEK, run_of(dp=32, pp=8, ep=32, mtp=mtp)) for mtp in (False, True))
    experts = 256 * 3 * 7168 * 2048
    terms = ("weights", "gradients", "optimizer")
    more = {
        one.stage: sum(int(other.terms[term]) - int(one.terms[term]) for term in terms)
        for one, other in zip(without, beside, strict=True)
    }
    on_rank = MODULE - experts + experts // 32 + 129_280 * 7168  # beside a table of tokens of its own
    assert more == dict.fromkeys(more, 0) | {"last": 18 * on_rank}


def test_its_table_of_tokens_is_that_of_the_first_stage() -> None:
    """Whose gradients are summed with it once a step; one stage has it once, and so have both ends under DualPipe."""
    plain, more = both(dp=32, pp=8, ep=32, zero=1, stages=(1, 6, 9, 9, 9, 9, 9, 9))  # the last is told of
    assert summed(more, "all_reduce") - summed(plain, "all_reduce") == 4 * 129_280 * 7168
    for words in ({"dp": 256, "ep": 32}, {"dp": 32, "pp": 8, "ep": 32, "schedule": "dualpipe"}):
        plain, more = both(**words)
        added = [row.kernel for row in more.kernels if row.kernel.path == "data of the table" and row.kernel.calls]
        assert not added
        without, beside = (phase_ranks(DEEPSEEK, run_of(**words, mtp=mtp)) for mtp in (False, True))
        assert int(beside[0].terms["weights"]) - int(without[0].terms["weights"]) < 2 * (MODULE + 129_280)


def test_the_stage_of_the_head_runs_it() -> None:
    """A last stage of one layer has room for it, so that a step is as long as without; one of nine is longer by it."""
    few = {"dp": 32, "pp": 8, "ep": 32, "stages": (9, 9, 9, 9, 9, 9, 6, 1)}
    plain, more = both(**few)
    assert more.seconds < plain.seconds * 1.01
    heavy = {"dp": 32, "pp": 8, "ep": 32, "stages": (1, 6, 9, 9, 9, 9, 9, 9)}
    plain, more = both(**heavy)
    assert more.seconds > plain.seconds * 1.05


def test_a_checkpoint_holds_the_module() -> None:
    plain, more = (checkpoint_bytes(DEEPSEEK, run_of(dp=32, pp=8, ep=32, mtp=mtp)) for mtp in (False, True))
    assert more - plain == 14 * MODULE


def test_columns_of_plans_are_plans_alone() -> None:
    """Those of eight stages in four pieces have 7, 8, … 8, 6 layers, of four in two 16, 16, 16, 13."""
    columns = {
        "pp": [1, 8, 4, 8],
        "dp": [256, 32, 64, 32],
        "ep": [32, 32, 64, 32],
        "zero": [3, 1, 0, 1],
        "interleave": [1, 1, 2, 4],
    }
    found = step_times(DEEPSEEK, "h800", **columns, **WORDS, mtp=True)
    for row in range(4):
        plan: dict[str, Any] = {name: column[row] for name, column in columns.items()}
        alone = predict(DEEPSEEK, "h800", **WORDS, mtp=True, **plan)
        assert found.seconds[row] == pytest.approx(alone.seconds, rel=1e-12)
        assert found.peak is not None
        assert found.peak[row] == pytest.approx(alone.memory.peak, rel=1e-12)
