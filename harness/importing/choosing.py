"""Choosing which shapes to measure or to fit to, without knowing what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def chosen(sizes: Mapping[str, Any], count: int, seed: int = 0) -> Any:
    """Indices of `count` of n rows, ascending: one at random from each of as many cells with equally many rows.

    sizes: columns of n numbers from 0 on, such as m, n and k. Rows are cut in two along the size that spreads widest in
    its logarithm, and each part again, until every part gives one row. All n where there are no more than `count`.
    """
    import numpy as np

    scaled = np.log2(1 + np.stack([np.asarray(column, dtype=float) for column in sizes.values()], axis=1))
    rng = np.random.default_rng(seed)
    # Equal sizes are many; an order among them by chance keeps cuts from favouring the first of the table.
    order = rng.permutation(len(scaled))
    if count >= len(scaled):
        return np.arange(len(scaled))
    found: list[int] = []
    waiting = [(order, count)]
    while waiting:
        rows, wanted = waiting.pop()
        if wanted == 1:
            found.append(int(rng.choice(rows)))
            continue
        widest = int(scaled[rows].std(axis=0).argmax())
        rows = rows[scaled[rows, widest].argsort(kind="stable")]
        half = wanted // 2
        cut = round(len(rows) * half / wanted)
        waiting += [(rows[:cut], half), (rows[cut:], wanted - half)]
    return np.sort(found)


TENTHS = 10
CALIBRATING, TESTING = 8, 9
"""Tenths of all shapes that no time model is fitted to: the first widens its intervals, the second tests them."""


def tenth(shape: Mapping[str, Any]) -> Any:
    """Which tenth each of n shapes lies in, 0 to 9: by a hash of its sizes alone, so that a shape is fitted to on every
    device, in every format and framework, or on none."""
    from hashlib import blake2b

    import numpy as np

    sizes = np.stack([np.asarray(shape[name], dtype=float) for name in sorted(shape)], axis=1)
    each = (blake2b(" ".join(f"{size:.10g}" for size in row).encode(), digest_size=4).digest() for row in sizes)
    return np.array([int.from_bytes(digest, "big") % TENTHS for digest in each], dtype=int)
