"""What devices reach of their datasheets: the figures of calc/data/priors.toml, and models of time made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from calc.reading.files import parse_toml, read_text
from calc.time.models.gemm import GemmModel
from calc.time.models.limits import Limits
from calc.time.models.residual import Spread

PRIORS = Path(__file__).parents[2] / "data" / "priors.toml"


@cache
def priors() -> dict[str, Any]:
    """The tables of calc/data/priors.toml."""
    return parse_toml(read_text(PRIORS), PRIORS.name)


def factors(name: str) -> tuple[float, float]:
    """Between which multiples of what the prior `name` predicts 90 of 100 measured times lie."""
    table = priors()[name]
    return table["low"], table["high"]


def published_gemm(limits: Limits, architecture: str) -> GemmModel:
    """The model of matrix products of a device of `architecture` with these limits, as [gemm] says."""
    table = priors()["gemm"]
    own = table.get(architecture, table["other"])
    factors = {"peak": own["peak"], "read": own["bandwidth"], "write": own["bandwidth"], "launch": own["launch"]}
    model = GemmModel.prior(limits)
    moved = {name: model.constants[name] + math.log(factor) for name, factor in factors.items()}
    spread = spread_between(own["low"], own["high"])
    return model.model_copy(update={"constants": model.constants | moved, "spread": spread})


def spread_between(low: float, high: float) -> Spread:
    """A spread of which 90 % lie between two factors, of points that nobody counted."""
    quantiles = (2 * math.log(low), math.log(low), 0.0, math.log(high), 2 * math.log(high))
    error = (high - low) / 4
    return Spread(
        n=0, mape=error, median_ape=error, probabilities=(0.0005, 0.05, 0.5, 0.95, 0.9995), quantiles=quantiles
    )


@dataclass(frozen=True)
class PublishedPass:
    """Time of a pass over memory by the datasheet's bandwidth; as [passes] says."""

    bandwidth: float

    def seconds(self, nbytes: Any) -> Any:
        """Seconds of one pass over `nbytes`, a number or an array."""
        table = priors()["passes"]
        return table["launch"] + nbytes / (self.bandwidth * table["bandwidth"])

    def interval(self, level: float) -> tuple[float, float]:
        """Factors (low, high) on a predicted time between which `level` of measured times lie."""
        return scaled(factors("passes"), level)


def scaled(bounds: tuple[float, float], level: float) -> tuple[float, float]:
    """Factors that hold for 90 % of times as those for `level`, errors taken as normal in their logarithm."""
    from statistics import NormalDist

    if level == 0.9:
        return bounds
    wider = NormalDist().inv_cdf((1 + level) / 2) / NormalDist().inv_cdf(0.95)
    return bounds[0] ** wider, bounds[1] ** wider
