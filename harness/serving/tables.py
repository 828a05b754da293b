"""The errors of predictions of servers as a document prints them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from harness.serving.scoring import Errors, Scored, coverage, errors_of, grouped

COLUMNS = ("rows", "per token", "mean", "first token", "throughput", "within: token", "first", "throughput")
"""Medians of absolute errors but for `mean`; `first token` without saturated rows; `within`, the interval's
coverage."""
FEWEST = 20
"""Rows of a group that has a line of its own."""


def table(found: Sequence[Scored], name: str, key: Callable[[Scored], str]) -> str:
    """Errors by group, and of all rows in the last line, as Markdown."""
    known = [each for each in found if each.tpot is not None]
    lines = [f"| {name} | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for group, some in grouped(known, key):
        if len(some) >= FEWEST:
            lines.append(_line(group, some))
    lines.append(_line("all", known))
    return "\n".join(lines)


def _line(group: str, some: Sequence[Scored]) -> str:
    token, speed = errors_of(each.tpot for each in some), errors_of(each.throughput for each in some)
    first = errors_of(each.ttft for each in some if not each.saturated)
    within = [coverage(some, which) for which in (1, 0, 2)]
    cells = [f"{len(some)}", _percent(token), f"{token.mean:.1%}", _percent(first), _percent(speed)]
    return f"| {group} | {' | '.join([*cells, *(_share(each) for each in within)])} |"


def _percent(errors: Errors) -> str:
    return f"{errors.median:.1%}" if errors.rows else "–"


def _share(part: float) -> str:
    return "–" if math.isnan(part) else f"{part:.0%}"
