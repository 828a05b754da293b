"""Constants of serving by robust least squares: what a device reaches and what an engine takes besides.

Residuals are logarithms of predicted over measured seconds, of a token and, with less weight, of the first one. Every
constant is drawn towards what is typical, so that what rows do not tell stays there; none leaves its bounds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calc.serve.constants import FILE
from harness.serving.columns import Case, columns, predicted
from harness.serving.robust import ROUNDS, fitted, weights
from harness.serving.rows import ServedRow
from harness.serving.slopes import slopes_of

SPLIT = FILE.with_name("split.toml")
FAMILIES = ("Blackwell", "CDNA3", "CDNA4")
"""Families of architectures beside Hopper, whose constants are the plain ones."""
ENGINES = ("vllm", "sglang", "trtllm")
TYPICAL = {
    "computing": 0.72,
    "computing.fp8": 0.75,
    "computing.fp4": 0.6,
    "computing.bf16": 1.0,
    "grouped": 1.0,
    "grouped.widened": 1.0,
    "grouped.fp8": 1.0,
    "grouped.fp4": 1.0,
    "streaming": 0.83,
    "streaming.fp8": 0.95,
    "streaming.fp4": 0.85,
    "streaming.widened": 1.0,
    "widening": 0.9,
    "experts": 1.0,
    "experts.fp8": 1.0,
    "experts.fp4": 1.0,
    "experts.widened": 1.0,
    "cache": 0.7,
    "cache.latent": 0.9,
    "cache.heads": 1.0,
    "decoding": 0.4,
    "decoding.latent": 1.0,
    "prompts": 0.5,
    "passing": 0.6,
    "kernel": 4e-6,
    "eager": 2e-5,
    "quantise": 4e-6,
    "routing": 1.0,
    "link": 0.6,
    "network": 0.6,
    "beyond": 2.0,
    "skew": 0.15,
    "evenness": 0.8,
    "gathering": 2.0,
    "latency": 8e-6,
    "ranks": 0.1,
    "step": 5e-4,
    "sequence": 2e-5,
    "request": 0.015,
    "reading": 2e-6,
    "together": 0.5,
}
"""Where constants begin: 1 where they multiply measured kernels of experts; for others what products, attention and
sums reach in the same tables (calc/data/priors.toml), and judgement."""
BY_FAMILY = ("computing", "streaming", "experts", "cache", "prompts", "kernel", "routing", "latency", "eager")
BY_ENGINE = ("computing", "experts", "kernel", "routing", "latency", "eager", "step", "sequence", "request")
HIGHEST = {"evenness": 1.0, "widening": 1.1, "together": 1.0, "request": 0.05}
HIGHEST |= dict.fromkeys(("streaming.fp8", "streaming.fp4", "streaming.widened"), 1.1)
HIGHEST |= dict.fromkeys(("computing", "streaming", "cache", "decoding", "prompts", "passing", "link", "network"), 0.95)
WIDTHS = {
    "grouped": 0.25,
    "experts": 0.15,
    "routing": 0.25,
    "skew": 0.4,
    "evenness": 0.3,
    "gathering": 1.5,
    "network": 0.4,
    "prompts": 0.35,
    "widening": 0.2,
    "together": 0.4,
}
"""How far a constant's logarithm strays, where it is not as usual: 0.5 for plain ones, 0.15 for those of a kind."""
DRAWN = 2.5
"""Weight of a constant's own residual, also of what hosts take for requests. Chosen on the systems that the split
lists, each left out in turn (docs/serving-measured.md)."""
TOLERANCE = (0.08, 0.5)
"""Residuals of a token's seconds and of the first one's from which on a row counts less than its square."""


SLOWER = 4 / 3
"""How much longer a token may take than at a higher load, for rows to be of one server."""


def fitted_systems(table: str) -> frozenset[str]:
    """The systems whose rows of a table constants are fitted to."""
    return frozenset(tomllib.loads(SPLIT.read_text())[table]["fitted"])


def start() -> dict[str, float]:
    """The constants before any fit."""
    kinds = [(name, kind) for name in BY_FAMILY for kind in FAMILIES]
    kinds += [(name, kind) for name in BY_ENGINE for kind in ENGINES]
    return TYPICAL | {f"{name}.{kind}": 1.0 for name, kind in kinds}


def fit(cases: Sequence[Case], rounds: int = ROUNDS) -> dict[str, float]:
    """The constants that meet the cases best."""
    import numpy as np

    cases = consistent(cases)
    ready, weight = columns(cases), weights([case.row.system for case in cases])
    scale = np.concatenate([weight / TOLERANCE[0], weight / TOLERANCE[1]])

    def residuals(given: Mapping[str, float]) -> Any:
        return np.concatenate(errors(cases, given, ready)) * scale

    def slopes(given: Mapping[str, float], step: float) -> Any:
        return slopes_of(ready, given, step) * scale[:, None]

    return fitted(start(), residuals, width, HIGHEST, rounds, DRAWN, slopes)


def width(name: str) -> float:
    """How far a constant's logarithm strays."""
    if name.startswith(("step.", "request.")):
        return 0.4
    if name.startswith("eager."):
        return 0.25
    return 0.15 if "." in name else WIDTHS.get(name, 0.5)


def consistent(cases: Sequence[Case]) -> list[Case]:
    """Those whose series, runs of one plan at several loads, could be of one server: where a token takes a third
    longer than at a higher load, something else was measured too. Constants are not fitted to others; all are
    judged."""
    series: dict[Any, list[ServedRow]] = {}
    for row in (case.row for case in cases):
        series.setdefault(_plan(row), []).append(row)
    odd = {key for key, rows in series.items() if any(_slower(one, other) for one in rows for other in rows)}
    return [case for case in cases if _plan(case.row) not in odd]


def _plan(row: ServedRow) -> Any:
    return row.source, row.system, row.dtype, row.input, row.output, tuple(row.layout.items())


def _slower(one: ServedRow, other: ServedRow) -> bool:
    """Whether a token of one takes too long, beside that of a row of more requests."""
    if one.tpot is None or other.tpot is None:
        return False
    return other.concurrency > one.concurrency and one.tpot > SLOWER * other.tpot


def errors(cases: Sequence[Case], given: Mapping[str, float], ready: Any = None) -> tuple[Any, Any]:
    """Logarithms of predicted over measured: of seconds of a token, and to the first token."""
    import numpy as np

    found = predicted(cases, given, ready)
    token = np.log(found.tpot / np.array([case.row.tpot for case in cases]))
    prompt = np.log(found.ttft / np.array([case.row.ttft for case in cases]))
    return np.nan_to_num(token), np.nan_to_num(prompt)


def written(constants: Mapping[str, float], source: str) -> str:
    """The constants as a data file holds them."""
    lines = [f'source = "{source}"', ""]
    for name in (name for name in constants if "." not in name):
        lines += [f"[constants.{name}]", f"value = {constants[name]:.4g}"]
        kinds = {key.partition(".")[2]: value for key, value in constants.items() if key.startswith(f"{name}.")}
        lines += [*(f"{_key(kind)} = {value:.4g}" for kind, value in kinds.items()), ""]
    return "\n".join(lines)


def _key(kind: str) -> str:
    return kind if kind.isalnum() else f'"{kind}"'


def write(constants: Mapping[str, float], source: str, file: Path) -> None:
    """Put the constants into a data file; what else it has, its intervals, stays."""
    tables = file.read_text().partition("[interval]")[1:] if file.exists() else ("", "")
    file.write_text(f"{written(constants, source)}{''.join(tables)}")
