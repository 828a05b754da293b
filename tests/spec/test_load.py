"""Query-key pairs in closed form against a mask that is drawn and counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calc.spec.load import Load
from calc.spec.pairs import twice_seen_around


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 25))
def test_chunks_are_counted_as_the_mask_keeps_them(seq: int, context: int, chunk: int) -> None:
    kept = sum(key // chunk == query // chunk for query in range(context, context + seq) for key in range(query + 1))
    load = Load(seq=seq, context=context, scores="causal-exact")
    assert load.twice_pairs(chunk, chunked=True) == 2 * kept
    half = Load(seq=seq, context=context, scores="causal-half")
    assert half.twice_pairs(chunk, chunked=True) == 2 * kept - seq


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 25))
def test_windows_are_counted_as_the_mask_keeps_them(seq: int, context: int, window: int) -> None:
    kept = sum(query - key < window for query in range(context, context + seq) for key in range(query + 1))
    assert Load(seq=seq, context=context, scores="causal-exact").twice_pairs(window) == 2 * kept


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 25))
def test_windows_on_both_sides_are_counted_as_the_mask_keeps_them(seq: int, context: int, window: int) -> None:
    keys = context + seq
    kept = sum(abs(query - key) < window for query in range(context, keys) for key in range(keys))
    assert twice_seen_around(seq, keys, window) == 2 * kept
