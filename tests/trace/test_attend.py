"""Scores, softmax and weighted values: FLOPs, what moves and what is kept, worked out by hand."""

from __future__ import annotations

import pytest

from calc.sizes import Size
from calc.spec import Shaw
from calc.trace.functions import Attend, Matmul
from calc.trace.op import Cache, Op
from calc.trace.primitives.attend_live import Scoring
from calc.trace.primitives.attend_saved import Square
from calc.trace.trace import Trace
from tests.trace.recorded import given, kept, ops, run

BATCH, HEADS, KV_HEADS, SEQ, D_HEAD, D_VALUE = 2, 6, 3, 5, 4, 7
ROWS = BATCH * SEQ
PAIRS = BATCH * HEADS * SEQ * SEQ


def attended(scoring: Scoring, cached: int = 0, *, d_value: int = D_VALUE, cache: Cache | None = None) -> dict[str, Op]:
    """The ops of an attention of 5 new tokens that sees `cached` more, by name."""
    t = Trace()
    q, k, v = given(ROWS, HEADS * D_HEAD), given(ROWS, KV_HEADS * D_HEAD), given(ROWS, KV_HEADS * d_value)
    keys = cached + SEQ
    shape = Attend(BATCH * KV_HEADS, HEADS // KV_HEADS, SEQ, keys, D_HEAD, d_value)
    square = Square(BATCH, HEADS, BATCH * HEADS, BATCH * KV_HEADS, SEQ, keys, D_HEAD, d_value)
    twice: Size = 2 * BATCH * HEADS * SEQ * keys
    y = t.attend(q, k, v, shape, square, twice, scoring, cached=cached, cache=cache)
    assert (y.rows, y.width) == (ROWS, HEADS * d_value)
    return {op.name: op for op in ops(t)}


def test_products_are_two_flops_a_multiply_accumulate() -> None:
    """300 pairs: 2 * 300 * 4 FLOPs of scores and 2 * 300 * 7 of values; softmax has none."""
    found = attended(Scoring())
    assert {name: op.flops for name, op in found.items()} == {"scores": 2400, "softmax": 0, "values": 4200}


@pytest.mark.parametrize("cached", [0, 8])
def test_each_key_is_read_once_for_its_group(cached: int) -> None:
    """Queries are read for 6 heads and keys for 3; scores [2, 6, 5, keys] are written; keys of 8 tokens more come from
    the cache, to which both are written: 2 * 3 * 5 * (4 + 7) numbers."""
    found = attended(Scoring(), cached, cache=Cache(ROWS * KV_HEADS * (D_HEAD + D_VALUE)))
    scores, values = found["scores"], found["values"]
    matrix = 2 * 6 * 5 * (cached + 5)
    assert (scores.reads, scores.writes) == (2 * 5 * 6 * 4 + 2 * 5 * 3 * 4, matrix)
    assert (scores.cache_reads, scores.cache_writes) == (2 * cached * 3 * 4, 330)
    assert (values.reads, values.writes) == (matrix + 2 * 5 * 3 * 7, 2 * 5 * 6 * 7)
    assert values.cache_reads == 2 * cached * 3 * 7


def test_vectors_of_distances_are_multiplied_with_queries_and_weights() -> None:
    """Tables of 2 * 3 + 1 distances, d_head and d_value wide: as many FLOPs again as scores and values."""
    found = attended(Scoring(shaw=Shaw(max_distance=3, values=True)))
    key, value = found["relative_key"], found["relative_value"]
    assert (key.flops, value.flops) == (2 * PAIRS * D_HEAD, 2 * PAIRS * D_VALUE)
    assert [each.shape for op in (key, value) for each in op.weights] == [(7, D_HEAD), (7, D_VALUE)]
    # Once for each of 5 queries: [36, 4] x [4, 5] against keys' vectors, [36, 5] x [5, 7] against values'.
    assert key.shape == Matmul(12, 5, 4, 5)
    assert value.shape == Matmul(12, 7, 5, 5)


def test_written_out_it_keeps_queries_keys_values_and_weights() -> None:
    """One head of 5 tokens in fp32: q, k, v [5, 4] and the weights [5, 5]."""
    t = Trace()
    q, k, v = (given(SEQ, D_HEAD) for _ in "qkv")
    square = Square(1, 1, 1, 1, SEQ, SEQ, D_HEAD, D_HEAD)
    t.attend(q, k, v, Attend(1, 1, SEQ, SEQ, D_HEAD, D_HEAD), square, 2 * SEQ * SEQ, Scoring())
    tape, _ = run(t, q, k, v)
    assert kept(tape) == 4 * (3 * SEQ * D_HEAD + SEQ * SEQ)
