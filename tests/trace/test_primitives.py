"""One primitive of each family: weights, FLOPs, what moves and what is kept, worked out by hand or by torch."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from calc.spec import Lora, Moe, Norm, Rope
from calc.spec.load import Load
from calc.trace.primitives.experts import expert_scale, route
from calc.trace.primitives.short_convolution import short_convolution
from calc.trace.settings import Settings
from calc.trace.trace import Trace
from tests.trace.recorded import given, kept, ops, run

ROWS, D = 3, 4
AMP = Settings("eager", "bf16", autocast=True)


def test_linear() -> None:
    """A matrix [5, 4] and a bias: 2 * 3 * 4 * 5 FLOPs; it moves x, its result and 25 weights, and keeps x."""
    t, x = Trace(), given(ROWS, D)
    y = t.linear("up", x, 5, bias=True)
    (op,) = ops(t)
    with FlopCounterMode(display=False) as counted:
        torch.nn.Linear(D, 5)(torch.rand(ROWS, D))
    assert op.flops == counted.get_total_flops() == 120
    assert [weight.shape for weight in op.weights] == [(5, 4), (5,)]
    assert (op.reads, op.writes, op.weights_read) == (12, 15, 25)
    tape, found = run(t, x)
    assert list(tape.saved) == [found[x]]
    assert (y.rows, y.width) == (3, 5)


def test_a_cast_names_its_weight() -> None:
    """Under autocast x and the matrix are cast, 2 bytes a number; ranks divide the cast as they do that weight."""
    t, x = Trace(), given(ROWS, D)
    t.linear("up", x, 5)
    short_convolution(t, "conv", x, 2, Load(batch=1, seq=ROWS), bias=False, activated=False)
    tape, _ = run(t, x, settings=AMP)
    weights = [weight for op in ops(t) for weight in op.weights]
    assert [saved.tensor.weight for saved in tape.saved.values() if saved.role == "cast weight"] == weights
    assert [s.weight for s in tape.saved if s.weight is not None] == weights
    first = [saved for saved in tape.saved.values() if saved.op == "up"]
    assert sum(saved.tensor.bytes for saved in first) == 2 * (5 * 4 + ROWS * D)


def test_an_update_of_low_rank() -> None:
    """Rank 2 beside a matrix [5, 4]: 2 * 3 * 2 * (4 + 5) FLOPs more."""
    t, x = Trace(Lora(rank=2, targets=("up",))), given(ROWS, D)
    t.adapter = t.whole if isinstance(t.whole, Lora) else None
    t.linear("up", x, 5)
    assert [op.flops for op in ops(t)] == [120, 48, 60, 0]
    assert [weight.shape for op in ops(t) for weight in op.weights if weight.trainable] == [(2, 4), (5, 2)]


def test_convolution() -> None:
    t, x = Trace(), given(10, 6)
    t.convolution("conv", x, 4, (3,), 8, groups=2)
    (op,) = ops(t)
    with FlopCounterMode(display=False) as counted:
        layer = torch.nn.Conv1d(6, 4, 3, groups=2)
        layer(torch.rand(1, 6, 10))
    assert op.flops == counted.get_total_flops() == 2 * 8 * 4 * 3 * 3
    assert [weight.shape for weight in op.weights] == [tuple(p.shape) for p in layer.parameters()]


@pytest.mark.parametrize(("kind", "bias", "weights"), [("layernorm", True, 8), ("rmsnorm", False, 4)])
def test_norm(kind: str, bias: bool, weights: int) -> None:
    t, x = Trace(), given(ROWS, D)
    t.norm("norm", Norm(kind=kind, bias=bias), x)  # type: ignore[arg-type]
    (op,) = ops(t)
    assert (op.flops, op.weights_read, op.reads, op.writes) == (0, weights, 12, 12)
    tape, found = run(t, x)
    assert found[x] in tape.saved


def test_arithmetic() -> None:
    """A sum keeps nothing, a product both factors; a copy moves all that it reads."""
    t, x, y = Trace(), given(ROWS, D), given(ROWS, D)
    t.add("add", x, y)
    assert kept(run(t, x, y)[0]) == 0
    t.times("times", x, y)
    assert kept(run(t, x, y)[0]) == 2 * 4 * ROWS * D
    t.concat("concat", x, y)
    copied = ops(t)[-1]
    assert (copied.reads, copied.writes) == (24, 24)


def test_activation_keeps_its_input() -> None:
    t, x = Trace(), given(ROWS, D)
    t.activation("act", "silu", x)
    tape, found = run(t, x)
    assert list(tape.saved) == [found[x]]


def test_gather_reads_rows_and_keeps_their_numbers() -> None:
    t = Trace()
    t.gather("token", (t.weight("token.weight", 100, D),), ROWS, D)
    (op,) = ops(t)
    assert (op.flops, op.reads, op.writes, op.weights_read) == (0, 0, 12, 12)
    assert kept(run(t)[0]) == 8 * ROWS


def test_rope_keeps_its_angles_once_for_all_that_turns() -> None:
    t, q, k = Trace(), given(ROWS, 8), given(ROWS, 4)
    t.rope("rope", Rope(), ROWS, 4, q, k)
    assert kept(run(t, q, k)[0]) == 2 * 4 * ROWS * 4
    assert ops(t)[0].flops == 0


@pytest.mark.parametrize("corrected", [False, True])
def test_the_choice_of_experts_is_kept_once(corrected: bool) -> None:
    """Scores in fp32 and two numbers of experts a token, 8 bytes each, whether or not a scale looks them up too."""
    spec = Moe(n_experts=4, top_k=2, d_expert=8, renormalize=False, scaled_router=corrected)
    t, x = Trace(), given(ROWS, D)
    scores = t.linear("router", x, 4)
    chosen = route(t, spec, scores, x)
    if corrected:
        expert_scale(t, spec, chosen, x)
    tape, _ = run(t, x)
    choices = [saved.tensor for saved in tape.saved.values() if saved.tensor.dtype == "int64"]
    assert [choice.elements for choice in choices] == [2 * ROWS]
    assert choices == list(tape.choices.values())
