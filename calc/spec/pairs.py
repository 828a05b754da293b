"""Query-key pairs that a mask keeps, of one head and one sequence: the one place where they are counted.

Sizes may be ints, arrays or symbols. Sums are given twice, so that half a square stays a whole number.
"""

from __future__ import annotations

from calc.sizes import Size, floor_div, minimum


def twice_seen(tokens: Size, window: Size | None = None, diagonal: int = 1) -> Size:
    """Twice the pairs of a sequence's first `tokens` tokens, each of which sees itself and what came before it.

    window: of those at most so many, its own included. diagonal: 0 for half of every square, as if a token saw half of
    itself.
    """
    if window is None:
        return tokens * (tokens + diagonal)
    short = minimum(tokens, window)
    return short * (short + diagonal) + 2 * window * (tokens - short)


def twice_seen_last(seq: Size, keys: Size, window: Size | None = None, diagonal: int = 1) -> Size:
    """The same of the last `seq` of `keys` tokens alone."""
    return twice_seen(keys, window, diagonal) - twice_seen(keys - seq, window, diagonal)


def twice_seen_in_chunks(tokens: Size, chunk: Size, diagonal: int = 1) -> Size:
    """The same where a token sees back to the last position that is a multiple of `chunk`."""
    full = floor_div(tokens, chunk)
    rest = tokens - full * chunk
    return full * twice_seen(chunk, None, diagonal) + twice_seen(rest, None, diagonal)


def twice_since_pool(tokens: Size, pool: Size) -> Size:
    """Twice the pairs of a sequence's first `tokens` tokens, each of which sees those behind the last whole `pool`, its
    own token included where that is one of them."""
    whole = floor_div(tokens, pool)
    rest = tokens - whole * pool
    return whole * pool * (pool - 1) + rest * (rest + 1)


def twice_seen_around(seq: Size, keys: Size, window: Size) -> Size:
    """Twice the pairs of the last `seq` of `keys` tokens that see those less than `window` away on both sides."""
    # To the left a token at position p has min(p, window - 1) of them: the sum that `twice_seen` has from 1 on.
    left = _twice_before(keys, window) - _twice_before(keys - seq, window)
    return 2 * seq + left + _twice_before(seq, window)


def _twice_before(tokens: Size, window: Size) -> Size:
    short = minimum(tokens, window)
    return short * (short - 1) + 2 * (window - 1) * (tokens - short)
