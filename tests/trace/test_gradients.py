"""What going back takes, and parts that are passed again without weights of their own."""

from __future__ import annotations

from calc.trace.echo import echo
from calc.trace.gradients import backward
from calc.trace.part import Part, leaves
from calc.trace.trace import Trace
from tests.trace.recorded import given, ops


def test_a_product_goes_back_once_for_each_operand_that_needs_it() -> None:
    """2 * 3 * 4 * 5 FLOPs forward: as many for the weight, and for x where something ahead of it is trained."""
    for grad, times in ((True, 2), (False, 1)):
        t = Trace()
        t.linear("up", given(3, 4, grad=grad), 5)
        (op,) = ops(t)
        assert op.flops == 120
        assert backward(op) == times * 120


def test_nothing_comes_back_where_a_result_is_not_read() -> None:
    t = Trace()
    t.linear("up", given(3, 4), 5, reached=0)
    assert backward(ops(t)[0]) == 0


def test_an_echo_computes_and_moves_the_same_with_weights_that_stand_elsewhere() -> None:
    t, x = Trace(), given(3, 4)
    with t.part("layer", x):
        t.linear("up", x, 5, bias=True)
    part = Part("", tuple(t.body))
    (own,), (again,) = leaves(part), leaves(echo(part))
    assert own.op.weights
    assert not again.op.weights
    assert again.op.flops == own.op.flops == 120
    assert backward(again.op) == backward(own.op) == 240
    assert again.op.weights_read == own.op.weights_read == 25
    assert again.op.weight_gradients == own.op.weight_gradients == 25
