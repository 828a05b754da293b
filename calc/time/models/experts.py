"""Time of the experts of one layer on one rank: two grouped products and what stands between and around them.

Each expert that a batch reaches has its matrices read once and its tokens padded to whole tiles. Under skewed routing
fewer experts are reached, and the busiest has many times the tokens of the others.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from calc.time.models.questions import Shape, answer
from calc.time.models.residual import Column
from calc.time.models.roofline import Roofline, Work

TILE = 16.0
"""Rows that a tile of tensor cores has at least, however few tokens an expert gets."""
LARGEST = 0.8
"""Part of all tokens that one expert gets at most under a power law."""
VECTOR = 16.0
"""Bytes that a thread loads at once: of matrices whose rows are no multiple of them, element by element."""
QUANTILES = 8
"""Of the power law, that stand for all experts."""


class ExpertsModel(Roofline):
    """Fitted constants of one library's experts in one number format."""

    typical: ClassVar[dict[str, float]] = Roofline.typical | {"launch": 3.0, "step": -6.0}

    def seconds(
        self,
        tokens: Any,
        hidden: Any,
        inter: Any,
        experts: Any,
        top_k: Any,
        tp: Any = 1,
        ep: Any = 1,
        skew: Any = 0.0,
        gated: Any = True,
    ) -> Any:
        """Seconds of one layer's experts on one rank; ints give a float, float64 arrays (or a mix) an array.

        tokens: that the ranks of `ep` have together. hidden, inter: width of the stream and of one expert, before it is
        divided among `tp` ranks. experts, top_k: of the layer, and how many each token visits. ep: ranks among which
        whole experts are divided. skew: exponent of the power law by which tokens choose, 0 where all experts get as
        many. gated: whether an expert has a gate beside its matrices up and down.
        """
        sizes = {"tokens": tokens, "hidden": hidden, "inter": inter, "experts": experts, "top_k": top_k}
        return answer(self, **sizes, tp=tp, ep=ep, skew=skew, gated=gated)

    def work(self, shape: Shape) -> Work:
        """Reached experts' matrices, rows padded to tiles, and activations in and out."""
        import numpy as np

        load = load_of(shape)
        inter = shape["inter"] / shape["tp"]
        count = 2.0 + (shape["gated"] > 0)
        matrices = count * shape["hidden"] * inter
        flops = 2.0 * matrices * load.padded
        moved = load.visits * (2 * shape["hidden"] + count * inter) * 2.0
        rows = load.visits / load.reached
        features = {
            "tokens": np.log2(shape["tokens"]),
            "visits": np.log2(load.visits),
            "rows": np.log2(rows),
            "reached": np.log2(load.reached),
            "busiest": np.log2(load.busiest),
            "padded": np.log2(load.padded / load.visits),
            "local": np.log2(shape["experts"] / shape["ep"]),
            "experts": np.log2(shape["experts"]),
            "top_k": np.log2(shape["top_k"]),
            "hidden": np.log2(shape["hidden"]),
            "inter": np.log2(inter),
            "whole": np.log2(shape["inter"]),
            "ep": np.log2(shape["ep"]),
            "skew": shape["skew"],
            "ragged": np.ceil(inter * self.limits.weight_size / VECTOR) * VECTOR - inter * self.limits.weight_size,
            "filled_64": rows / 64 / np.ceil(rows / 64),
            "filled_128": rows / 128 / np.ceil(rows / 128),
            "waves": np.log2(load.padded / 64 * np.maximum(inter, 64) / 64 / (self.limits.cores or 1)),
        }
        nbytes = matrices * load.reached * self.limits.weight_size + moved
        # Where tokens choose unevenly, any rank of several may have got fewer than its share.
        all_here = (shape["skew"] <= 0) | (shape["ep"] <= 1)
        surely = np.where(all_here, 2.0 * matrices * shape["tokens"] * shape["top_k"] / shape["ep"], 0.0)
        return Work(flops, nbytes, load.visits, surely, features)


class Load(NamedTuple):
    """What n batches bring the busiest rank. visits: tokens times the experts here that each visits; reached: experts
    with any; padded: rows when each expert's are rounded up to tiles; busiest: those of the expert with most."""

    visits: Column
    reached: Column
    padded: Column
    busiest: Column


def load_of(shape: Shape) -> Load:
    """The load of columns tokens, top_k, experts, ep and skew: quantiles of what experts get, and on the rank that
    holds the busiest expert, that one and an average of the others."""
    import numpy as np

    mean = shape["tokens"] * shape["top_k"] / shape["experts"]
    even = shape["skew"] <= 0
    counts, busiest = _drawn(shape, mean)
    counts = np.where(even[:, None], mean[:, None], counts)
    busiest = np.where(even, mean, busiest)
    others = np.maximum(np.maximum(shape["experts"] / shape["ep"], 1.0) - 1, 0.0)
    each = np.where(even[:, None], np.minimum(counts, 1.0), -np.expm1(-counts))
    whole = np.maximum(counts, TILE * each).mean(axis=1)
    return Load(
        visits=busiest + others * counts.mean(axis=1),
        reached=np.minimum(busiest, 1.0) + others * each.mean(axis=1),
        padded=np.maximum(busiest, TILE * np.minimum(busiest, 1.0)) + others * whole,
        busiest=np.maximum(busiest, 1.0),
    )


def _drawn(shape: Shape, mean: Column) -> tuple[Column, Column]:
    """(quantiles [n, QUANTILES], the largest) of the tokens of an expert whose share is drawn from a power law with
    exponent `skew`, between 1 and `LARGEST` of the tokens, which is how benchmarks make skewed routing."""
    import numpy as np

    skewed = np.maximum(shape["skew"], 1e-9)[:, None]
    most = np.maximum(LARGEST * shape["tokens"], 2.0)[:, None]
    power = np.where(np.abs(1 - skewed) < 1e-6, 1e-6, 1 - skewed)
    places = np.broadcast_to((np.arange(QUANTILES) + 0.5) / QUANTILES, (len(mean), QUANTILES))
    last = 1 - 1 / (shape["experts"][:, None] + 1)
    draws = (1 + np.concatenate([places, last], axis=1) * (most**power - 1)) ** (1 / power)
    draws, top = draws[:, :-1], draws[:, -1]
    scale = mean / draws.mean(axis=1)
    counts = np.minimum(draws * scale[:, None], shape["tokens"][:, None])
    return counts, np.minimum(np.maximum(top * scale, mean), shape["tokens"])
