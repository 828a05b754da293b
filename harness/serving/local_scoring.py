"""How wrong predictions of llama.cpp's benchmarks are: every row by constants that did not see its system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calc.serve.constants import constants, interval_of
from harness.serving.fitting import fitted_systems
from harness.serving.local import LocalCase, LocalRow, local_speeds
from harness.serving.scoring import FOLDS, errors_of

COLUMNS = ("rows", "all", "mean", "prompts", "answers", "within")
"""Medians of absolute errors but for `mean`; `within`, how many the interval holds."""
FEWEST = 8
"""Rows of a group that has a line of its own."""


@dataclass(frozen=True, slots=True)
class LocalScored:
    """A row beside its prediction: predicted over measured tokens a second, and whether the interval holds it."""

    row: LocalRow
    speed: float
    inside: bool


def local_judged(cases: Sequence[LocalCase]) -> list[LocalScored]:
    """Every case by constants that did not see its system."""
    listed, found = fitted_systems("llama_cpp"), []
    for fold, seen in (("listed", False), ("others", True)):
        own = [case for case in cases if (case.row.system in listed) is seen]
        speeds = local_speeds(own, constants(FOLDS / f"llama_cpp_{fold}.toml"))
        found += [LocalScored(case.row, float(x), _inside(case.row, x)) for case, x in zip(own, speeds, strict=True)]
    return found


def _inside(row: LocalRow, speed: float) -> bool:
    """Predicted over measured tokens a second are measured over predicted seconds."""
    _, low, high = interval_of("ttft" if row.prompt else "tpot", row.engine)
    return low <= speed <= high


def local_table(found: Sequence[LocalScored], name: str, key: Callable[[LocalScored], str]) -> str:
    """Errors by group, and of all rows in the last line, as Markdown."""
    groups: dict[str, list[LocalScored]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    lines = [f"| {name} | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    lines += [_line(group, some) for group, some in sorted(groups.items()) if len(some) >= FEWEST]
    return "\n".join([*lines, _line("all", found)])


def _line(group: str, some: Sequence[LocalScored]) -> str:
    every = errors_of(each.speed for each in some)
    medians = [errors_of(x.speed for x in some if x.row.prompt is prompt).median for prompt in (True, False)]
    within = sum(each.inside for each in some) / len(some)
    cells = [f"{every.median:.1%}", f"{every.mean:.1%}", *(f"{each:.1%}" for each in medians), f"{within:.0%}"]
    return f"| {group} | {every.rows} | {' | '.join(cells)} |"
