"""What physics leaves over, learned: gradient-boosted symmetric trees on dimensionless features.

A time model answers `physics * exp(residual)`. The residual is a sum of small trees fitted to log(measured / physics).
Its features are ratios and counts (waves, fill of the last wave, work per byte over the machine's, ...), never seconds,
so that it stays valid on a device whose bandwidth or peak differs. A tree is symmetric: all nodes of a level ask the
same question, so a tree of depth d is d questions and 2^d answers, cheap to store and to evaluate on arrays.
Boosting after Friedman (Annals of Statistics 29, 2001, with row sampling as in his Computational Statistics & Data
Analysis 38, 2002); symmetric trees after Prokhorenkova et al. (CatBoost, arXiv 1706.09516).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Node

Column = Any
"""A float64 array of n numbers."""

SCALE = 1e-4
"""Answers of trees are kept as whole multiples of this much log-ratio."""
CHUNK = 1024
"""Rows that all trees are asked of at once, so that their answers stay in a core's cache."""


LogRatio = Annotated[float, Field(ge=-20, le=20)]
Index = Annotated[int, Field(ge=0)]
Answer = Annotated[int, Field(ge=-20 / SCALE, le=20 / SCALE)]


class Tree(Node):
    """One symmetric tree: `features[i]` is compared with its edge number `edges[i]`; 2^depth answers in SCALE."""

    features: Annotated[tuple[Index, ...], Field(max_length=16)]
    edges: tuple[Index, ...]
    answers: tuple[Answer, ...]

    @model_validator(mode="after")
    def _whole(self) -> Tree:
        depth = len(self.features)
        if len(self.edges) != depth or len(self.answers) != 2**depth:
            raise Refused("tree", f"{depth} edges and {2**depth} answers", f"{len(self.edges)} and {len(self.answers)}")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees of one depth d, which are asked all at once: q questions, of `features` [q] against `thresholds` [q];
    `places` [trees, d] says which of them a tree asks, `answers` [trees, 2^d] what it answers."""

    features: Column
    thresholds: Column
    places: Column
    answers: Column

    def sums(self, columns: list[Column]) -> Column:
        """The sum of all answers for each of n rows, in SCALE."""
        import numpy as np

        if not len(self.features):
            return np.full(columns[0].shape, self.answers.sum())
        above = (np.stack(columns)[self.features] > self.thresholds[:, None]).astype(np.int64)
        leaf = np.zeros((len(self.places), len(columns[0])), dtype=np.int64)
        for question in self.places.T:
            leaf += leaf + above[question]
        return np.take_along_axis(self.answers, leaf, axis=1).sum(axis=0)


class Residual(Node):
    """A learned log-ratio. `edges[j]` are the thresholds of feature `names[j]`, ascending; outside of what was seen it
    stays constant."""

    names: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]
    trees: tuple[Tree, ...]

    @model_validator(mode="after")
    def _whole(self) -> Residual:
        counts = [len(edges) for edges in self.edges]
        if len(counts) != len(self.names):
            raise Refused("residual", f"edges of {len(self.names)} features", len(counts))
        for tree in self.trees:
            for feature, edge in zip(tree.features, tree.edges, strict=True):
                if feature >= len(counts) or edge >= counts[feature]:
                    raise Refused("residual", "questions about its own edges", f"feature {feature}, edge {edge}")
        return self

    def log_ratio(self, features: Mapping[str, Column]) -> Column:
        """log(measured / physics) for n rows; `features` holds a column of n numbers for each of `names`."""
        import numpy as np

        if strange := [name for name in self.names if name not in features]:
            raise Refused("residual", f"features among {', '.join(features)}", strange[0])
        columns = [np.atleast_1d(np.asarray(features[name], dtype=float)) for name in self.names]
        total = np.zeros(columns[0].shape, dtype=np.int64)
        for start in range(0, len(total), CHUNK):
            rows = slice(start, start + CHUNK)
            for forest in self.forests:
                total[rows] += forest.sums([column[rows] for column in columns])
        return total * SCALE

    @cached_property
    def forests(self) -> tuple[Forest, ...]:
        """The trees, those of one depth together."""
        depths = sorted({len(tree.features) for tree in self.trees})
        return tuple(self._forest([tree for tree in self.trees if len(tree.features) == n]) for n in depths)

    def _forest(self, trees: list[Tree]) -> Forest:
        import numpy as np

        asked = [tuple(zip(tree.features, tree.edges, strict=True)) for tree in trees]
        distinct = {question: i for i, question in enumerate(dict.fromkeys(q for each in asked for q in each))}
        places = np.array([[distinct[question] for question in each] for each in asked], dtype=np.int64)
        thresholds = np.array([self.edges[feature][edge] for feature, edge in distinct])
        answers = np.array([tree.answers for tree in trees])
        return Forest(np.array([feature for feature, _ in distinct], dtype=np.int64), thresholds, places, answers)


class Spread(Node):
    """How far predictions are from measurements that they were not fitted to.

    `quantiles[i]` is the quantile at `probabilities[i]` of log(measured / predicted), both ascending; `mape` and
    `median_ape` are fractions of the measured time.
    """

    n: int
    mape: float
    median_ape: float
    probabilities: Annotated[tuple[float, ...], Field(min_length=1)]
    quantiles: tuple[LogRatio, ...]

    @model_validator(mode="after")
    def _ascending(self) -> Spread:
        for column in (self.probabilities, self.quantiles):
            if len(column) != len(self.probabilities) or list(column) != sorted(column):
                raise Refused("spread", "as many quantiles as probabilities, both ascending", column)
        return self

    def interval(self, level: float) -> tuple[float, float]:
        """Factors (low, high) on a predicted time between which `level` of measurements lie, as 0.9."""
        import numpy as np

        low, high = np.interp([(1 - level) / 2, (1 + level) / 2], self.probabilities, self.quantiles)
        return float(np.exp(low)), float(np.exp(high))
