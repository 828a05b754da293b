"""What a recorder knows of the ops that are written on it."""

from __future__ import annotations

import pytest

from calc.spec import Lora
from calc.trace.part import Part, leaves
from calc.trace.trace import Trace
from tests.trace.recorded import given, ops


def test_ops_stand_in_parts_in_the_order_they_run() -> None:
    t, x = Trace(), given(3, 4)
    with t.part("outer", x, of="mlp", calls=2, copies=5) as out:
        y = t.linear("up", x, 6)
        with t.part("inner", y):
            t.linear("down", y, 4)
        out.append(y)
    first, second = leaves(Part("", tuple(t.body)))
    assert (first.path, second.path) == ("outer.up", "outer.inner.down")
    assert (first.calls, first.copies) == (2, 5)
    assert first.op.weights[0].component == "mlp"
    assert t.component == "other"


def test_readers_are_those_that_make_something_of_a_tensor() -> None:
    """Two products and a sum read x; a view of it, such as what dropout leaves, reads nothing."""
    t, x = Trace(), given(3, 4)
    y = t.linear("a", x, 4)
    z = t.linear("b", x, 4)
    t.dropout("dropout", x)
    assert x.readers == 2
    t.add("sum", x, y, z)
    assert (x.readers, y.readers, z.readers) == (3, 1, 1)
    t.joined(y, z, rows=3, width=8)
    assert (y.readers, z.readers) == (2, 2)


def test_silent_ops_are_kept_but_do_not_run() -> None:
    t = Trace()
    t.dropout("dropout", given(2, 2))
    assert [op.name for op in ops(t)] == ["dropout"]
    assert list(leaves(Part("", tuple(t.body)))) == []


def test_what_needs_no_gradient_passes_none() -> None:
    """Ahead of an adapter all is frozen, and so the first product has no gradient to give."""
    t = Trace(Lora(rank=2))
    y = t.linear("frozen", given(3, 4, grad=False), 4)
    assert not y.grad
    (op,) = ops(t)
    assert not op.live
    assert not op.input_grad
    assert op.backward == 0
    with t.trained():
        assert t.linear("own", y, 4).grad


@pytest.mark.parametrize("within", ["trained", "without_gradient"])
def test_a_block_that_fails_leaves_the_recorder_as_it_was(within: str) -> None:
    t = Trace(Lora(rank=2))
    before = t.frozen, t.adapter, t.common, t.dead
    with pytest.raises(ZeroDivisionError), getattr(t, within)():
        _ = 1 // 0
    with pytest.raises(ZeroDivisionError), t.part("broken", of="mlp"), t.one_kernel("sdpa"):
        _ = 1 // 0
    assert (t.frozen, t.adapter, t.common, t.dead) == before
    assert (t.body, t.inside, t.component) == ([], None, "other")


def test_a_part_says_what_it_is_to_its_model() -> None:
    t, x = Trace(), given(3, 4)
    with t.part("any name", x, role="head"):
        t.linear("logits", x, 7)
    with t.part("lm_head", x):
        t.linear("logits", x, 7)
    assert [leaf.in_head for leaf in leaves(Part("", tuple(t.body)))] == [True, False]
