"""What physics leaves over, learned: gradient-boosted symmetric trees on dimensionless features.

A time model answers `physics * exp(residual)`. The residual is a sum of small trees fitted to log(measured / physics).
Its features are ratios and counts (waves, fill of the last wave, work per byte over the machine's, ...), never seconds,
so that it stays valid on a device whose bandwidth or peak differs. A tree is symmetric: all nodes of a level ask the
same question, so a tree of depth d is d questions and 2^d answers, cheap to store and to evaluate on arrays.
Boosting after Friedman (Annals of Statistics 29, 2001, with row sampling as in his Computational Statistics & Data
Analysis 38, 2002); symmetric trees after Prokhorenkova et al. (CatBoost, arXiv 1706.09516).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Node

Column = Any
"""A float64 array of n numbers."""

CHUNK = 2048
"""Rows that all trees are asked of at once, so that their answers stay in a core's cache."""
LARGEST_ANSWER = 127

LogRatio = Annotated[float, Field(ge=-20, le=20)]


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees of one depth d as arrays. thresholds [q]: of the questions of all trees, each once; ends [features]: where
    those of each feature end. places [trees, d]: which of them a tree asks. answers [trees, 2^d]: log-ratios."""

    thresholds: Column
    ends: Column
    places: Column
    answers: Column

    def sums(self, columns: Column) -> Column:
        """The sum of all answers for each of n rows; columns: [features, n]."""
        import numpy as np

        above = np.empty((len(self.thresholds), columns.shape[1]), dtype=bool)
        start = 0
        for column, end in zip(columns, self.ends, strict=True):
            np.greater(column, self.thresholds[start:end, None], out=above[start:end])
            start = end
        answers_all = above.view(np.uint8)
        leaf = np.zeros((len(self.places), columns.shape[1]), dtype=np.uint8)
        answer = np.empty_like(leaf)
        for question in self.places.T:
            np.take(answers_all, question, axis=0, out=answer, mode="clip")
            leaf <<= 1
            leaf |= answer
        total = np.zeros(columns.shape[1], dtype=np.float32)
        for answers, place in zip(self.answers, leaf, strict=True):
            total += answers.take(place, mode="clip")
        return total


class Residual(Node):
    """A learned log-ratio: trees of one depth, packed.

    names: of the features. edges[j]: thresholds of feature j, ascending; outside of what was seen the residual stays
    constant. questions: base64 of two bytes a question (feature, edge), `depth` questions a tree. answers: base64 of
    one signed byte an answer, in units of `scale`, 2^depth answers a tree.
    """

    names: Annotated[tuple[str, ...], Field(max_length=255)]
    edges: tuple[Annotated[tuple[float, ...], Field(max_length=255)], ...]
    depth: Annotated[int, Field(ge=0, le=7)]
    scale: Annotated[float, Field(ge=0, le=20 / LARGEST_ANSWER)]
    questions: str
    answers: str

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len(self.edges) != len(self.names):
            raise Refused("residual", f"edges of {len(self.names)} features", len(self.edges))
        trees, rest = divmod(len(_bytes(self.answers, "answers")), 2**self.depth)
        pairs = _bytes(self.questions, "questions")
        if rest or len(pairs) != 2 * self.depth * trees:
            raise Refused("residual", f"{2 * self.depth} bytes of questions a tree", f"{len(pairs)} for {trees} trees")
        for feature, edge in zip(pairs[::2], pairs[1::2], strict=True):
            if feature >= len(self.edges) or edge >= len(self.edges[feature]):
                raise Refused("residual", "questions about its own edges", f"feature {feature}, edge {edge}")
        return self

    @classmethod
    def packed(cls, names: tuple[str, ...], edges: Any, questions: Any, answers: Any) -> Self:
        """Trees from arrays: questions [trees, depth, 2] of feature and edge, answers [trees, 2^depth] of log-ratios,
        rounded to a 127th of the largest."""
        import numpy as np

        questions, answers = np.asarray(questions, dtype=np.uint8), np.asarray(answers, dtype=float)
        scale = float(f"{np.abs(answers).max(initial=0) / LARGEST_ANSWER:.6g}")
        whole = np.clip(np.rint(answers / (scale or 1.0)), -LARGEST_ANSWER, LARGEST_ANSWER).astype(np.int8)
        return cls(
            names=names,
            edges=tuple(tuple(map(float, each)) for each in edges),
            depth=questions.shape[1],
            scale=scale,
            questions=base64.b64encode(questions.tobytes()).decode(),
            answers=base64.b64encode(whole.tobytes()).decode(),
        )

    def scaled(self, factor: float) -> Self:
        """The same with log-ratios so many times as large."""
        return self.model_validate(self.model_dump() | {"scale": self.scale * factor})

    def log_ratio(self, features: Mapping[str, Column]) -> Column:
        """log(measured / physics) for n rows; `features` holds a column of n numbers for each of `names`."""
        import numpy as np

        if strange := [name for name in self.names if name not in features]:
            raise Refused("residual", f"features among {', '.join(features)}", strange[0])
        rows = len(next(iter(features.values())))
        total = np.zeros(rows)
        if not len(self.forest.thresholds):
            return total
        columns = [np.asarray(features[name], dtype=np.float32) for name in self.names]
        for start in range(0, rows, CHUNK):
            part = slice(start, start + CHUNK)
            total[part] = self.forest.sums(np.stack([column[part] for column in columns]))
        return total

    @cached_property
    def forest(self) -> Forest:
        """The trees as arrays."""
        import numpy as np

        pairs = np.frombuffer(_bytes(self.questions, "questions"), dtype=np.uint8).reshape(-1, 2)
        distinct, places = np.unique(pairs, axis=0, return_inverse=True)
        thresholds = np.array([self.edges[feature][edge] for feature, edge in distinct], dtype=np.float32)
        answers = np.frombuffer(_bytes(self.answers, "answers"), dtype=np.int8).reshape(-1, 2**self.depth)
        return Forest(
            thresholds,
            np.searchsorted(distinct[:, 0], np.arange(len(self.names)), side="right"),
            places.reshape(len(answers), self.depth),
            answers.astype(np.float32) * np.float32(self.scale),
        )


def _bytes(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(f"residual.{name}", "base64", text[:40]) from None


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
