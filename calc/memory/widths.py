"""The terms of a total in which every number takes as many bytes: a formula names these instead of their digits."""

from __future__ import annotations

from collections.abc import Mapping

from calc.dtypes import Quantized, weight_dtype
from calc.dtypes import dtype as number_format
from calc.memory.cache import activation_dtype, cache_dtype
from calc.memory.totals import total_terms
from calc.sizes import Size, is_exactly, quotient
from calc.spec import ModelSpec
from calc.spec.recurrent import recurrent
from calc.spec.run import Run

TRAINED = {"weights": "b_weights", "gradients": "b_gradients"}
SERVED = {"weights": "b_dtype", "logits": "b_act", "kv_cache": "b_cache"}
"""Term -> the symbol of the bytes of one number of it."""


def total_widths(run: Run) -> dict[str, int]:
    """Bytes of one number by the names of their symbols, of the terms that are in one format alone.

    Left out are weights in a quantized format or with copies in fewer bits, an engine's pages, and what ZeRO gathers or
    reduces beside a rank's own.
    """
    if run.mode == "training":
        how = run.precision
        several = run.frozen or run.narrow_weights is not None or not is_exactly(run.divides(2), 0)
        formats = {} if several else {"b_weights": how.weights}
        formats |= {"b_gradients": how.gradients} if formats else {}
    else:
        kind = weight_dtype(run.dtype)
        plain = not isinstance(kind, Quantized) and kind.bits >= 8
        formats = {"b_act": activation_dtype(run.dtype)} | ({"b_dtype": run.dtype} if plain else {})
        formats |= {} if run.engine else {"b_cache": cache_dtype(run)}
    return {name: number_format(each).width for name, each in formats.items()}


def total_in_widths(spec: ModelSpec, run: Run, widths: Mapping[str, Size]) -> dict[str, Size]:
    """`total_terms` with these, perhaps symbols, in place of the bytes of `total_widths`.

    A cache with recurrent states is left as it is: they have a format of their own.
    """
    known, symbols = total_widths(run), TRAINED if run.mode == "training" else SERVED

    def named(term: str, value: Size) -> Size:
        symbol = symbols.get(term, "")
        if symbol not in known or (term == "kv_cache" and recurrent(spec)):
            return value
        return widths[symbol] * quotient(value, known[symbol])

    return {term: named(term, value) for term, value in total_terms(spec, run).items()}
