"""Fitting the residual: gradient boosting of symmetric trees on histograms, in numpy.

Each round fits one tree to what is left over on a random part of the rows and features, and takes a small step of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from calc.time.models.residual import Column, Residual, Spread

PROBABILITIES = (0.005, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 0.85, 0.9, 0.95, 0.975, 0.995)


MOST_TREES, FEWEST_TREES, ROWS_A_TREE = 200, 40, 3
"""A table of few rows is told by fewer trees."""


class Settings(NamedTuple):
    """How a residual is learned. rounds: trees; depth: questions of each; rate: part of each tree's answer that is
    taken; shrink: rows that pull every answer to 0; rows, columns: part of them that a tree sees; bins: of a feature;
    clip: log-ratio beyond which a row pulls no harder, since measurements have outliers."""

    rounds: int = MOST_TREES
    depth: int = 5
    rate: float = 0.12
    shrink: float = 0.5
    rows: float = 0.8
    columns: float = 0.8
    bins: int = 48
    clip: float = 1.0


def fit_residual(
    features: Mapping[str, Column], log_ratio: Column, seed: int = 0, settings: Settings | None = None
) -> Residual:
    """The residual that boosting learns from n rows: deterministic for a seed."""
    import numpy as np

    settings = settings or Settings(rounds=int(np.clip(len(log_ratio) / ROWS_A_TREE, FEWEST_TREES, MOST_TREES)))
    columns = [np.asarray(column, dtype=float) for column in features.values()]
    edges = [_edges(column, settings.bins) for column in columns]
    bins = np.stack([np.searchsorted(e, column, side="left") for e, column in zip(edges, columns, strict=True)], axis=1)
    counts = np.array([len(e) for e in edges])
    left = np.array(log_ratio, dtype=float)
    rng = np.random.default_rng(seed)
    questions, answers = [], []
    for _ in range(settings.rounds if counts.any() else 0):
        split, answer, step = _tree(bins, counts, np.clip(left, -settings.clip, settings.clip), rng, settings)
        left -= step
        questions.append(split)
        answers.append(answer)
    shape = (len(questions), settings.depth, 2)
    return Residual.packed(tuple(features), edges, np.reshape(questions, shape), np.reshape(answers, (shape[0], -1)))


def spread(log_ratio: Column, few: bool = False) -> Spread:
    """The spread of n values of log(measured / predicted) on rows that were not fitted to. few: as wide as a further
    value must expect, at the (n + 1) p-th of the n (split conformal prediction, Vovk et al. 2005), which matters where
    n is small."""
    import numpy as np

    errors = np.abs(np.exp(-log_ratio) - 1)
    return Spread(
        n=len(log_ratio),
        mape=float(errors.mean()),
        median_ape=float(np.median(errors)),
        probabilities=PROBABILITIES,
        quantiles=tuple(float(q) for q in np.quantile(log_ratio, PROBABILITIES, method="weibull" if few else "linear")),
    )


def _edges(column: Column, bins: int) -> Column:
    """At most `bins` - 1 thresholds, each half way between two neighbouring values, at even quantiles of the rows."""
    import numpy as np

    values = np.unique(column)
    places = np.arange(len(values) - 1)
    if len(values) > bins:
        cuts = np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1], method="inverted_cdf")
        places = np.unique(np.searchsorted(values, cuts))
        places = places[places < len(values) - 1]
    # Few digits keep a stored model short; what a tree is fitted to and what is stored are the same edges.
    return np.array(sorted({float(f"{edge:.4g}") for edge in (values[places] + values[places + 1]) / 2}))


def _tree(bins: Any, counts: Any, pull: Column, rng: Any, settings: Settings) -> tuple[Any, Column, Column]:
    """The questions [depth, 2] (feature, edge) and answers [2^depth] of one tree grown on a random part of the rows,
    and its answer for every row.

    bins: [n, features], in which bin each value lies; counts: edges of each feature.
    """
    import numpy as np

    usable = np.flatnonzero(counts)
    columns = rng.choice(usable, max(1, round(settings.columns * len(usable))), replace=False)
    seen = np.flatnonzero(rng.random(len(pull)) < settings.rows)
    leaf = np.zeros(len(pull), dtype=np.int64)
    questions = []
    for _ in range(settings.depth):
        best = _question(bins[np.ix_(seen, columns)], counts[columns], pull[seen], leaf[seen], settings.shrink)
        feature, edge = int(columns[best[0]]), int(best[1])
        questions.append((feature, edge))
        leaf += leaf + (bins[:, feature] > edge)
    size = 1 << settings.depth
    total = np.bincount(leaf[seen], pull[seen], size)
    weight = np.bincount(leaf[seen], minlength=size) + settings.shrink
    answers = settings.rate * total / weight
    return np.array(questions), answers, answers[leaf]


def _question(bins: Any, counts: Any, pull: Column, leaf: Any, shrink: float) -> tuple[Any, ...]:
    """(feature, edge) of the question that, asked of every leaf at once, explains most of `pull`."""
    import numpy as np

    features = bins.shape[1]
    width = int(counts.max()) + 1
    shape = (int(leaf.max(initial=0)) + 1, features, width)
    cell = (leaf[:, None] * features + np.arange(features)) * width + bins
    length = shape[0] * features * width
    below = np.bincount(cell.ravel(), np.repeat(pull, features), length).reshape(shape).cumsum(axis=2)
    number = np.bincount(cell.ravel(), minlength=length).reshape(shape).cumsum(axis=2)
    above, rest = below[:, :, -1:] - below, number[:, :, -1:] - number
    gain = (below**2 / (number + shrink) + above**2 / (rest + shrink)).sum(axis=0)
    gain[np.arange(width) >= counts[:, None]] = -1.0
    return np.unravel_index(gain.argmax(), gain.shape)
