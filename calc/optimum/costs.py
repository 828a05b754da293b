"""What a token costs in training and in use: 6 N and 2 N, or the exact FLOPs of an architecture at any size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from calc import conventions
from calc.errors import Refused
from calc.laws.base import Counts, Law
from calc.laws.surface import Surface
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from calc.spec.resizing import sizes_of, with_sizes
from calc.spec.run import Phase, Run

WIDTHS = ("d_model", "d_ff", "d_expert", "d_shared", "n_heads", "n_kv_heads", "n_layers")
"""Sizes that grow together: heads keep their width, and the vocabulary its size."""


FAR = 50.0
"""A family is scaled up to so many times as wide and deep, and down to one part in so many."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Models of all sizes by one number x above 0.

    size: N as a law counts it. train, use: FLOPs for a token of training, and of a forward pass. without: N without
    embeddings, where a model says what they are.
    low, high: where to look for x. exact: the model that it is, None for 6 N.
    """

    size: Callable[[float], float]
    train: Callable[[float], float]
    use: Callable[[float], float]
    low: float
    high: float
    exact: ModelSpec | None = None
    seq: int = 0
    without: Callable[[float], float] = lambda x: x

    def tabulated(self, steps: int = 48) -> Costs:
        """The same between logarithms at `steps` sizes, for those who ask thousands of times; to about 1e-4."""
        if self.exact is None:
            return self
        logs = [math.log(self.low) + i * math.log(self.high / self.low) / (steps - 1) for i in range(steps)]

        def between(of: Callable[[float], float]) -> Callable[[float], float]:
            known = [math.log(of(math.exp(at))) for at in logs]

            def read(x: float) -> float:
                place = (math.log(x) - logs[0]) / (logs[1] - logs[0])
                below = min(max(int(place), 0), steps - 2)
                return math.exp(known[below] + (place - below) * (known[below + 1] - known[below]))

            return read

        return replace(self, size=between(self.size), train=between(self.train), use=between(self.use))


SIX_N = Costs(size=lambda x: x, train=lambda x: 6 * x, use=lambda x: 2 * x, low=1.0, high=1e20)


def plain(law: Law) -> Costs:
    """6 N and 2 N for a token, of the part of N that a token visits."""
    form = None if law.parametric is None else law.parametric(law.k)
    if not isinstance(form, Surface) or form.share == 1:
        return SIX_N
    share = form.share
    return replace(SIX_N, train=lambda x: 6 * share * x, use=lambda x: 2 * share * x)


def of_family(spec: ModelSpec, seq: int, counts: Counts) -> Costs:
    """`spec` made x times as wide and as deep, each FLOP counted as `flops.training` counts it, in sequences of `seq`.

    Experts keep their number, so that a mixture keeps its routing.
    Errors: Refused for what is no plain language model (`as_fitted`), and for models that `counted` cannot read.
    """
    spec = as_fitted("--family", spec)
    known = sizes_of(spec)
    moved = {name: size for name, size in known.items() if name in WIDTHS or name.startswith("n_layers_")}
    if "d_model" not in moved or not any(name.startswith("n_layers") for name in moved):
        raise Refused("--family", "a model with one width and layers to scale", spec.name)
    counted(spec, counts)

    def at(x: float) -> ModelSpec:
        return with_sizes(spec, {name: size * x for name, size in moved.items()})

    @lru_cache(maxsize=4096)
    def read(x: float) -> tuple[float, float, float]:
        scaled = at(x)
        return counted(scaled, counts), _per_token(scaled, seq, "training"), _per_token(scaled, seq, "forward")

    return Costs(
        size=lambda x: read(x)[0],
        train=lambda x: read(x)[1],
        use=lambda x: read(x)[2],
        low=1 / FAR,
        high=FAR,
        exact=spec,
        seq=seq,
        without=lambda x: without_tables(at(x)),
    )


def as_fitted(field: str, spec: ModelSpec) -> ModelSpec:
    """The model as laws know it, of text alone: without a vision tower, which its name then says.

    Errors: Refused for encoders, models of pictures or sound, and for a name, which is no description yet.
    """
    if not isinstance(spec, ModelSpec):
        raise Refused(field, "a description, such as calc.load_model gives for a name", spec)
    if not spec.decodes or spec.encoder:
        raise Refused(field, "a language model that predicts the next token and has no encoder", spec.name)
    if spec.vision is None and spec.audio is None and spec.eyes is None:
        return spec
    return spec.model_copy(update={"vision": None, "audio": None, "eyes": None, "name": f"{spec.name}, text alone"})


def counted(spec: ModelSpec, counts: Counts) -> float:
    """N of a model as a law counts it. Errors: Refused where Kaplan's formula cannot read the model."""
    if counts == "non-embedding":
        return sum((conventions.params(spec, "kaplan") or {}).values())
    if counts == "active non-embedding":
        return without_tables(spec)
    terms = parameters(spec, active=counts == "active")
    total = sum(terms.values())
    if counts in ("all", "active"):
        return total
    # A tied table stays: it is the last layer.
    tied = spec.head is not None and spec.head.tied
    return total - terms.get("positional", 0) - (0 if tied else terms.get("embedding", 0))


def without_tables(spec: ModelSpec) -> float:
    """Parameters that a token visits, less embeddings, positions and the last layer's table."""
    terms = parameters(spec, active=True)
    return float(sum(size for name, size in terms.items() if name not in ("embedding", "positional", "lm_head")))


def _per_token(spec: ModelSpec, seq: int, phase: Phase) -> float:
    return float(conventions.flops(spec, Run(seq=seq, phase=phase)).total) / seq
