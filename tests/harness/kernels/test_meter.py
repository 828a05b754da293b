"""What the tiled kernel moves and computes, counted while it runs, is what the formulas say, to the byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calc.attention import Blocks, flash, standard
from calc.attention.shape import Direction
from harness.kernels import KERNELS, AttentionShape
from harness.kernels.inputs import random_inputs
from harness.kernels.meter import Meter
from harness.kernels.tiling import Tiling
from tests.harness.kernels.shapes import BOUNDS, errors, shapes
from tests.memory.live import Live

sides = st.integers(1, 48)
orders = st.sampled_from(["queries", "keys"])


def counted(shape: AttentionShape, blocks: Blocks, order: str) -> tuple[Meter, Meter]:
    """(forward, backward)."""
    forward, backward = Meter(), Meter()
    tiling = Tiling(*blocks, order, forward)
    q, k, v = random_inputs(replace(shape, direction="backward"), "cpu", 0)
    out = KERNELS["tiled"].forward(q, k, v, shape, tiling)
    out.grad_fn.tiling = Tiling(*blocks, order, backward)
    out.sum().backward()
    return forward, backward


@settings(max_examples=80, deadline=None)
@given(shape=shapes(), rows=sides, columns=sides, order=orders)
@example(AttentionShape(batch=2, heads=6, kv_heads=2, seq=37, d_head=8, causal=True, dtype="bf16"), 16, 8, "queries")
def test_counts_equal_the_formula(shape: AttentionShape, rows: int, columns: int, order: str) -> None:
    blocks = Blocks(rows, columns)
    forward, backward = counted(shape, blocks, order)
    once, both = (flash(shape.going(direction), blocks, order) for direction in ("forward", "backward"))
    for name in ("read", "written", "flops", "exponentials"):
        assert getattr(forward, name) == getattr(once, name), name
        assert getattr(forward, name) + getattr(backward, name) == getattr(both, name), name
    for sram, cost in ((forward.sram, once), (max(forward.sram, backward.sram), both)):
        assert sram <= cost.sram
        assert shape.hides or sram == cost.sram


@settings(max_examples=50, deadline=None)
@given(shape=shapes(dtype="fp32"), rows=sides, columns=sides, order=orders)
def test_any_tiles_in_any_order_compute_the_same(shape: AttentionShape, rows: int, columns: int, order: str) -> None:
    assert max(errors("tiled", shape, tiling=Tiling(rows, columns, order)).values()) <= BOUNDS["fp32"]


def peak(name: str, shape: AttentionShape) -> int:
    """The most bytes at once beside the inputs and, forward, the output."""
    inputs = random_inputs(shape, "cpu", 0)
    known = torch.nn.Module()
    for name_of, tensor in zip("qkv", inputs, strict=True):
        known.register_buffer(name_of, tensor)
    with Live(known) as live:
        out = KERNELS[name].forward(*inputs, shape)
        if shape.direction == "backward":
            torch.autograd.grad(out, inputs, torch.ones_like(out))
    return live.peak - (out.nbytes if shape.direction == "forward" else 0)


@pytest.mark.parametrize(("name", "growth"), [("reference", 4), ("tiled", 2)])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_memory_grows_with_the_square_or_with_the_length(name: str, growth: int, direction: Direction) -> None:
    """What each doubling of the length adds, so that tiles, which do not grow, do not count."""
    shape = AttentionShape(heads=1, seq=256, d_head=8, dtype="fp32", direction=direction)
    first, second, third = (peak(name, replace(shape, seq=seq, keys=seq)) for seq in (256, 512, 1024))
    assert (third - second) / (second - first) == pytest.approx(growth, rel=0.02)


def test_standard_attention_needs_two_squares_forward_and_three_backward() -> None:
    shape = AttentionShape(heads=2, seq=512, d_head=8, dtype="fp32")
    assert peak("reference", shape) == standard(shape).peak == 2 * 2 * 512 * 512 * 4
    backward = shape.going("backward")
    assert standard(backward).peak == 3 * 2 * 512 * 512 * 4
    # Beside the squares there are the output, its gradient and those of v.
    assert peak("reference", backward) == pytest.approx(standard(backward).peak, rel=0.02)


@pytest.mark.parametrize("name", ["reference", "tiled"])
def test_what_is_kept_for_backward_is_what_the_formulas_say(name: str) -> None:
    shape = AttentionShape(batch=2, heads=4, kv_heads=2, seq=96, d_head=8, dtype="fp32", direction="backward")
    q, k, v = random_inputs(shape, "cpu", 0)
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = KERNELS[name].forward(q, k, v, shape)
    beside = sum(size for place, size in kept.items() if place not in {x.data_ptr() for x in (q, k, v, out)})
    cost = standard(shape) if name == "reference" else flash(shape, Blocks(64, 64))
    assert beside == cost.saved
