"""What a rank holds of experts that tensor-parallel ranks cut, and of those that they share out whole."""

from __future__ import annotations

from typing import Any

import pytest

from calc.architectures.models import load_model
from calc.memory.sharding import stages
from calc.memory.states import states
from calc.memory.training import ranks
from calc.spec.run import Run

QWEN = load_model("qwen3-30b-a3b")
EXPERTS = 48 * 128 * 3 * 2048 * 768


@pytest.mark.parametrize(("pieces", "ep"), [(1, 4), (1, 64), (4, 4), (4, 16)])
def test_a_rank_holds_its_part_of_all_experts(pieces: int, ep: int) -> None:
    """And ZeRO-1 divides fp32 weights and two moments among the ranks that have the same: 12 bytes each of a 64th."""
    run = Run(tp=4, dp=16, ep=ep, expert_tp=pieces, zero=1, recipe="bf16-master")
    (held,) = states(QWEN, run, stages(QWEN, run))
    assert held.expert_elements == EXPERTS // (pieces * ep)
    # Beside them what is no expert's, of which a rank has as much either way.
    dense = states(QWEN, run.changed(expert_tp=None, ep=16), stages(QWEN, run))[0]
    assert held.elements - held.expert_elements == dense.elements - dense.expert_elements
    assert held.optimizer == dense.optimizer


def _kept(run: Run) -> int:
    (rank,) = ranks(QWEN, run.load(), run)
    return int(rank.activations.total)


def test_ranks_that_cut_experts_keep_all_rows_that_these_read() -> None:
    """Gathered for the product forward and for the gradient of its weight (Megatron-Core's dispatcher, whose output is
    what the experts' first product keeps); whole experts read the rows of one rank's tokens, a fourth as many."""
    words: dict[str, Any] = {
        "tp": 4,
        "dp": 16,
        "ep": 16,
        "seq": 512,
        "recipe": "bf16-master",
        "zero": 1,
        "execution": "compiled",
    }
    cut, whole = (_kept(Run(**words, expert_tp=pieces)) for pieces in (4, 1))
    rows = 48 * 512 * 8 * 2048 * 2
    assert cut - whole == rows - rows // 4


def test_rest_of_a_plan_is_as_without_saying_so() -> None:
    run = Run(tp=4, dp=16, ep=4, zero=2, recipe="bf16-mixed", shard=8)
    said = run.changed(expert_tp=4)
    assert states(QWEN, run, stages(QWEN, run)) == states(QWEN, said, stages(QWEN, said))
