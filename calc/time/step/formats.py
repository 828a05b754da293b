"""The number formats in which the kernels of a run compute."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from calc.dtypes import CACHE_DTYPES, Quantized, weight_dtype
from calc.spec.run import Run
from calc.spec.run.precision import Recipe, summed_in
from calc.time.kernels.kernel import width_of


@dataclass(frozen=True, slots=True)
class NumberFormats:
    """Number formats of one run.

    compute: of matrix products. stream: of norms and residual sums (autocast keeps them in fp32). weights: as kept,
    perhaps quantized; gradients; cache: of keys and values. recipe: of training, None otherwise.
    """

    compute: str
    stream: str
    weights: str
    gradients: str
    cache: str
    recipe: Recipe | None = None

    @property
    def casts(self) -> bool:
        """Whether weights are cast for every step."""
        return self.recipe is not None and self.recipe.weights != self.compute

    @property
    def quantized(self) -> Quantized | None:
        """How matrices are quantized, where they are."""
        kind = weight_dtype(self.weights)
        return kind if isinstance(kind, Quantized) else None


def number_formats(run: Run) -> NumberFormats:
    """The formats that the recipe stands for in training, and the format of the weights in all other phases."""
    return _named(run.recipe if run.trains else None, run.gradient_dtype, run.dtype, run.cache_dtype)


@lru_cache(maxsize=64)
def _named(training: str | None, gradients: str | None, dtype: str, cache: str | None) -> NumberFormats:
    """training: the recipe of training, None otherwise. gradients: the format in which they are summed, where that is
    said."""
    if training is not None:
        how = summed_in(training, gradients)
        stream = how.weights if how.autocast else how.compute
        return NumberFormats(how.multiplied, stream, how.weights, how.gradients, how.compute, how)
    kind = weight_dtype(dtype)
    compute = kind.rest if isinstance(kind, Quantized) else dtype if kind.bits >= 8 else "bf16"
    stream = compute if width_of(compute) >= 2 else "bf16"
    usual = stream if stream in CACHE_DTYPES else "bf16"
    return NumberFormats(compute, stream, dtype, stream, cache or usual)
