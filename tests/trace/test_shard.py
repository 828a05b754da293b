"""How ranks divide a weight, counted by dealing its rows and heads out."""

from __future__ import annotations

import pytest

from calc.trace.shard import COLUMN, ROW, VOCABULARY, fused, key_value


@pytest.mark.parametrize(("tp", "rows"), [(1, 12), (2, 6), (5, 3), (12, 1)])
def test_columns_and_rows(tp: int, rows: int) -> None:
    """A matrix [12, 7]: the rank with the most has ceil(12 / tp) rows, and of a bias as many."""
    assert COLUMN.elements((12, 7), tp) == VOCABULARY.elements((12, 7), tp) == rows * 7
    assert COLUMN.elements((12,), tp) == rows
    assert ROW.elements((7, 12), tp) == rows * 7
    assert ROW.elements((7,), tp) == 7


@pytest.mark.parametrize(("tp", "heads"), [(1, 4), (2, 2), (4, 1), (8, 1)])
def test_ranks_beyond_the_heads_share_them(tp: int, heads: int) -> None:
    """Four heads of keys, 3 wide: no rank has less than one."""
    assert key_value(4).elements((12, 5), tp) == heads * 3 * 5


def test_a_fused_projection_divides_queries_and_shares_keys() -> None:
    """16 rows of queries, 4 of keys and values in 2 heads, over 4 ranks: 4 rows and one head of 2."""
    assert fused(2, 4).elements((20, 3), 4) == (4 + 2) * 3
    assert fused(2, 4).part(200, (20, 3), 4) == 200 // 20 * 6
