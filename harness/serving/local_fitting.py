"""Constants of llama.cpp, fitted to the tokens a second of its benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calc.serve.constants import families_of
from harness.serving.local import LocalCase, local_columns, local_speeds
from harness.serving.robust import ROUNDS, fitted, weights
from harness.serving.slopes import moved

VULKAN = "llama.cpp-vulkan"
"""The engine whose kernels differ from those that constants are of."""
FAMILIES = families_of(VULKAN).measured
"""Families of architectures, each of which has constants of its own."""
TYPICAL = {
    "computing": 0.4,
    "computing.int8": 0.4,
    "computing.widened": 0.8,
    "grouped": 0.4,
    "grouped.widened": 1.0,
    "core": 11e9,
    "streaming": 0.85,
    "widening": 0.9,
    "experts": 0.9,
    "cache": 0.6,
    "cache.latent": 1.0,
    "cache.heads": 1.0,
    "decoding": 0.1,
    "decoding.latent": 1.0,
    "prompts": 0.2,
    "prompts.latent": 0.7,
    "prompts.heads": 1.0,
    "passing": 0.35,
    "kernel": 4e-6,
    "routing": 1.0,
    "link": 0.6,
    "network": 0.6,
    "beyond": 2.0,
    "skew": 0.15,
    "evenness": 0.8,
    "gathering": 1.0,
    "latency": 8e-6,
    "ranks": 0.1,
    "step": 3e-4,
    "sequence": 2e-5,
    "request": 0.01,
    "reading": 2e-6,
    "together": 0.5,
}
"""Where constants begin, by judgement. What one machine's tokens a second do not tell stays there."""
BY_FAMILY = ("computing", "streaming", "experts", "cache", "prompts", "kernel")
BY_ENGINE = ("computing", "streaming", "cache", "prompts", "kernel")
HIGHEST = {"evenness": 1.0, "widening": 1.1} | dict.fromkeys(
    ("computing", "streaming", "cache", "decoding", "prompts", "passing"), 0.95
)
WIDTHS = {"passing": 0.15, "routing": 0.05, "computing.int8": 0.5, "prompts.latent": 0.5} | dict.fromkeys(
    ("computing.Hopper", "computing.Apple", "computing.RDNA", *(f"prompts.{kind}" for kind in FAMILIES)), 0.5
)
"""How far a constant's logarithm strays, where it is not as usual: 0.5 for plain ones, 0.2 for those of a kind."""
DRAWN = 0.7
"""Weight of a constant's own residual, by judgement."""
TOLERANCE = 0.08
"""Residual of the logarithm of tokens a second from which on a row counts less than its square."""


def local_start() -> dict[str, float]:
    """The constants before any fit."""
    kinds = [(name, kind) for name in BY_FAMILY for kind in FAMILIES]
    kinds += [(name, VULKAN) for name in BY_ENGINE]
    return TYPICAL | {f"{name}.{kind}": 1.0 for name, kind in kinds}


def local_fit(cases: Sequence[LocalCase], rounds: int = ROUNDS) -> dict[str, float]:
    """The constants that meet the cases best."""
    import numpy as np

    ready, weight = local_columns(cases), weights([case.row.system for case in cases])

    def residuals(given: Mapping[str, float]) -> object:
        return weight * np.log(local_speeds(cases, given, ready)) / TOLERANCE

    def slopes(given: Mapping[str, float], step: float) -> Any:
        low, high = (np.log(local_speeds(cases, moved(given, move), ready)) for move in (-step / 2, step / 2))
        return ((high - low) / step * weight / TOLERANCE).T

    return fitted(local_start(), residuals, _width, HIGHEST, rounds, DRAWN, slopes)


def _width(name: str) -> float:
    return WIDTHS.get(name, 0.2 if "." in name else 0.5)
