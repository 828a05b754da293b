"""Costs of attention kernels: closed forms, other counters, published figures, orders of growth."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.attention import (
    AttentionShape,
    Blocks,
    Visits,
    best_blocks,
    flash,
    paper_blocks,
    sram,
    standard,
    tiles,
    tiles_that_fit,
    visits,
)
from calc.attention.bounds import BOUNDS, FLASH_CONSTANTS, crossovers
from calc.attention.flash import ORDERS
from calc.attention.latent import groupings, latent
from calc.attention.linear import linear
from calc.errors import Refused
from calc.teaching.flash_attention_table import rows, setting
from harness.counter import count
from harness.kernels import KERNELS
from harness.kernels.inputs import random_inputs
from tests.harness.kernels.shapes import shapes

TILES = Blocks(64, 64)
MHA = AttentionShape(batch=64, heads=16, seq=1024, d_head=64, dtype="fp16")


def test_flops_of_the_lectures_setting() -> None:
    """6 products of 2 N^2 d for each of 1,024 heads, 7 with recomputation: 825 and 962 GFLOP."""
    both = MHA.going("backward")
    product = 2 * 1024 * 1024 * 64 * 64 * 16
    assert standard(MHA).flops == flash(MHA, TILES).flops == 2 * product
    assert standard(both).flops == 6 * product == 824_633_720_832
    assert flash(both, TILES).flops == 7 * product == 962_072_674_304


@settings(max_examples=50, deadline=None)
@given(shapes(d_value=None), st.integers(1, 64), st.integers(1, 64), st.sampled_from(ORDERS))
def test_backward_is_two_and_a_half_times_forward(shape: AttentionShape, height: int, width: int, order: str) -> None:
    blocks = Blocks(height, width)
    forward = flash(shape.going("forward"), blocks, order).flops
    both = flash(shape.going("backward"), blocks, order).flops
    assert 2 * (both - forward) == 5 * forward


@settings(max_examples=100, deadline=None)
@given(shapes(), st.integers(1, 64), st.integers(1, 64), st.sampled_from([1, 3, 2**16]))
def test_visits_are_the_tiles_with_a_visible_pair(shape: AttentionShape, height: int, width: int, at_once: int) -> None:
    """Against the mask itself, cut into tiles, however many of their rows are looked at together."""
    import torch

    from harness.kernels.inputs import visible

    seen = visible(shape, torch.device("cpu"))
    mask = torch.ones(shape.seq, shape.keys, dtype=torch.bool) if seen is None else seen
    mask = mask.expand(shape.batch, 1, shape.seq, shape.keys)[:, 0].repeat_interleave(shape.group, 1).numpy()
    lengths = shape.lengths or (shape.keys,) * shape.batch
    expected = Visits(0, 0, 0, 0, 0, 0)
    for length, of_sequence in zip(lengths, mask, strict=True):
        rows, columns = set(), set()
        for top in range(0, of_sequence.shape[0], height):
            for left in range(0, length, width):
                tile = of_sequence[top : top + height, left : min(left + width, length)]
                if tile.any():
                    rows |= {*range(top, top + tile.shape[0])}
                    columns |= {*range(left, left + tile.shape[1])}
                    expected = expected.plus(Visits(1, 0, 0, tile.shape[0], tile.shape[1], tile.size))
        expected = expected.plus(Visits(0, len(rows), len(columns), 0, 0, 0))
    with patch.object(tiles, "_AT_ONCE", at_once):
        found = visits(shape, Blocks(height, width))
    assert found == expected.times(shape.kv_heads)
    assert all(type(each) is int for each in found)


def test_three_readings_of_a_shape_without_masks() -> None:
    names = ("batch", "heads", "kv_heads", "seq", "keys", "d_head", "d_value")
    cases = [(2, 6, 2, 37, 50, 8, 12), (1, 4, 4, 64, 64, 16, 16), (3, 8, 1, 1, 900, 32, 64)]
    symbols = sympy.symbols([*names, "rows", "columns"], positive=True)
    columns = [numpy.array(column, dtype=float) for column in zip(*cases, strict=True)]
    for direction in ("forward", "backward"):
        fixed = {"dtype": "bf16", "direction": direction}
        formula = AttentionShape(**dict(zip(names, symbols, strict=False)), **fixed)
        table = AttentionShape(**dict(zip(names, columns, strict=True)), **fixed)
        for order in ORDERS:
            symbolic = flash(formula, Blocks(*symbols[-2:]), order)
            together = flash(table, Blocks(16, 32), order)
            for i, case in enumerate(cases):
                exact = flash(AttentionShape(**dict(zip(names, case, strict=True)), **fixed), Blocks(16, 32), order)
                values = dict(zip(symbols, (*case, 16, 32), strict=True))
                for name in ("flops", "exponentials", "read", "written", "sram", "saved", "peak"):
                    value = getattr(exact, name)
                    assert sympy.sympify(getattr(symbolic, name)).subs(values) == value, name
                    column = numpy.broadcast_to(numpy.asarray(getattr(together, name), dtype=float), 3)
                    assert column[i] == value, name
    with pytest.raises(Refused, match="whole numbers where a mask hides tiles"):
        visits(replace(formula, causal=True), TILES)


def cut(d_head: int, elements: int) -> Blocks:
    """Tiles for `elements` of on-chip memory: few columns, and as many rows as leave room for their keys and values.

    Rows need d for the query, d for the output's sums, 2 numbers and a score for each column.
    """
    columns = max(min(d_head // 4, elements // (16 * d_head)), 1)
    return Blocks(max((elements - 2 * columns * d_head) // (2 * d_head + columns + 2), 1), columns)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([16, 32, 64, 128, 256]), st.integers(64, 2**17), st.floats(0, 1))
def test_counted_bytes_over_theta_stay_between_two_constants(d: int, n: int, where: float) -> None:
    """n^2 d^2 / m, for 8 d <= m <= n d, with tiles that fit m elements."""
    n = max(n, d)
    low, high = 8 * d, n * d
    m = int(low * (high / low) ** where)
    shape = AttentionShape(seq=n, d_head=d, dtype="fp32")
    blocks = cut(d, m)
    assert sram(shape, blocks) <= 4 * m
    theta = next(bound for bound in BOUNDS if bound.name == "flash").order
    values = dict(zip(sympy.symbols("n d m", positive=True), (n, d, m), strict=True))
    ratio = flash(shape, blocks).traffic / 4 / float(theta.subs(values))
    assert FLASH_CONSTANTS[0] <= ratio <= FLASH_CONSTANTS[1]


def test_standard_over_theta_and_the_lower_bound() -> None:
    n, d, m = sympy.symbols("n d m", positive=True)
    orders = {bound.name: bound.order for bound in BOUNDS}
    cost = standard(AttentionShape(seq=n, d_head=d, dtype="fp32"))
    assert sympy.expand(cost.traffic / 4 - 4 * orders["standard"]) == 0
    # With all of k and v on the chip flash's order is that of reading once; with d elements, standard's.
    assert sympy.simplify(orders["flash"].subs(m, n * d) / orders["reading and writing once"]) == 1
    assert sympy.simplify(orders["flash"].subs(m, d) / (n**2 * d)) == 1


def test_tiles_that_fit() -> None:
    shape = AttentionShape(heads=8, kv_heads=2, seq=4096, d_head=128, causal=True)
    capacity = 163 * 1024
    fit = list(tiles_that_fit(shape, capacity))
    assert Blocks(128, 64) in fit
    assert Blocks(1024, 64) not in fit
    best = best_blocks(shape, capacity)
    assert best in fit
    assert all(flash(shape, best).traffic <= flash(shape, each).traffic for each in fit)
    # Backward keeps more on the chip, so that less fits.
    assert set(tiles_that_fit(shape.going("backward"), capacity)) < set(fit)
    with pytest.raises(Refused, match="sram: expected at least"):
        best_blocks(shape, 1024)


def test_where_flash_wins() -> None:
    """Moved: 4 squares against (d + d_value) / rows of a square; none where tiles have d / 2 rows or fewer."""
    moved = [lambda cost: cost.traffic]
    one = AttentionShape(heads=2, seq=1, d_head=64, dtype="fp16")
    (never,) = crossovers(one, Blocks(16, 64), moved)
    assert never.length is None
    assert never.flash > never.standard
    (soon,) = crossovers(one, Blocks(64, 64), moved)
    assert soon.length == 1
    assert soon.standard == pytest.approx(4 * 2, rel=1e-2)
    assert soon.flash == pytest.approx(2 * 2 * 64 / 64, rel=1e-2)
    both = one.going("backward")
    (later,) = crossovers(both, Blocks(64, 64), moved)
    assert later.length is not None
    assert later.length > 1
    for length in (later.length - 1, later.length):
        shape = replace(both, seq=length, keys=length)
        assert (flash(shape, Blocks(64, 64)).traffic < standard(shape).traffic) == (length == later.length)


def test_the_printed_table() -> None:
    """Bytes come out as printed, by the papers' own algorithms; FLOPs do not, and are said not to."""
    found = {(row.quantity.split(",")[0], row.attention): row for row in rows() if row.printed is not None}
    assert round(found["HBM", "standard"].counted / 1e9, 1) == 40.3
    assert round(found["HBM", "flash"].counted / 1e9, 1) == 4.4
    assert [found["HBM", name].verdict for name in ("standard", "flash")] == ["confirmed"] * 2
    assert {row.verdict for row in found.values() if row.unit == "FLOP"} == {"unreproduced"}
    assert {found["time", name].verdict for name in ("standard", "flash")} == {"consistent"}
    # The predicted baseline neither masks nor drops out, and takes no longer than the printed one, which does.
    predicted = {name: found["predicted time", name] for name in ("standard", "flash")}
    assert found["time", "standard"].counted < predicted["standard"].counted < 41.7e-3
    assert predicted["flash"].verdict == "within"
    assert 2.5 < predicted["standard"].counted / predicted["flash"].counted < 41.7 / 7.3
    shape, capacity, _ = setting()
    assert paper_blocks(shape, capacity) == (64, 384)


def test_decoding_by_grouping() -> None:
    """32 query heads of 128: 16,384, 4,096 and 512 bytes a token, and 1,152 of latents as DeepSeek-V2 caches."""
    shape = AttentionShape(batch=8, heads=32, seq=1, keys=8192, d_head=128)
    found = {each.name: each for each in groupings(shape, (32, 8, 1))}
    assert [each.cached for each in found.values()] == [16384, 4096, 512, 1152, 1152]
    for name in ("MHA", "GQA-8", "MQA"):
        read = found[name].cached * 8 * 8192
        assert read < found[name].cost.traffic < 1.08 * read
        assert found[name].cost.flops == 4 * 8 * 32 * 128 * 8192
    assert found["MLA, absorbed"].cost.traffic < found["GQA-8"].cost.traffic / 3
    assert found["MLA, expanded"].cost.traffic > found["MHA"].cost.traffic


@pytest.mark.parametrize("absorbed", [False, True])
def test_flops_of_latent_attention_are_those_that_run(absorbed: bool) -> None:
    shape = AttentionShape(batch=2, heads=4, seq=3, keys=50, d_head=24, d_value=20, kv_rank=32, d_rope=8, dtype="fp32")
    backend = KERNELS["mla_absorbed" if absorbed else "mla_naive"]
    inputs = random_inputs(shape, "cpu", 0)
    assert count(lambda: backend.forward(*inputs, shape)) == latent(shape, absorbed).flops


@settings(max_examples=30, deadline=None)
@given(shapes(window=None, lengths=None, softcap=None, alibi=False, dtype="fp32"))
def test_flops_of_linear_attention_are_those_that_run(shape: AttentionShape) -> None:
    shape = replace(shape, direction="forward", causal=shape.causal and shape.offset >= 0)
    inputs = random_inputs(shape, "cpu", 0)
    backend = KERNELS["linear"]
    assert count(lambda: backend.forward(*inputs, shape)) == linear(shape, backend.chunk).flops


@settings(max_examples=30, deadline=None)
@given(shapes(dtype="fp32"))
def test_flops_of_the_reference_are_those_of_standard_attention(shape: AttentionShape) -> None:
    def run() -> None:
        inputs = random_inputs(shape, "cpu", 0)
        out = KERNELS["reference"].forward(*inputs, shape)
        if shape.direction == "backward":
            out.sum().backward()

    assert count(run) == standard(shape).flops


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"heads": 6, "kv_heads": 4}, "kv_heads"),
        ({"seq": 0}, "seq"),
        ({"dtype": "int8"}, "dtype"),
        ({"direction": "sideways"}, "direction"),
        ({"lengths": (1, 2)}, "lengths"),
        ({"lengths": (99,), "seq": 9}, "lengths"),
        ({"softcap": 0.0}, "softcap"),
        ({"window": 0}, "window"),
        ({"kv_rank": 8}, "d_rope"),
    ],
)
def test_refused(wrong: dict, field: str) -> None:
    with pytest.raises(Refused, match=rf"^{field}: expected "):
        AttentionShape(**wrong)
