"""A size turned into models that can be built: width, depth and heads of a family, nearest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from calc.errors import Refused
from calc.laws.base import Counts
from calc.optimum.costs import as_fitted, counted
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from calc.spec.resizing import sizes_of, with_sizes

WIDTH = 128
"""d_model is a multiple of it, and d_ff of twice it: matrix units work in such tiles."""
SQUAT = 1.5
"""How far the width for its depth may be from the family's own, as a factor."""


@dataclass(frozen=True, slots=True)
class Shape:
    """sizes: by symbol name. params: as the law counts N. total: every parameter. off: params over the wanted, less 1.

    spec: the model itself.
    """

    sizes: Mapping[str, int]
    params: int
    total: int
    off: float
    spec: ModelSpec


def shapes(spec: ModelSpec, params: float, counts: Counts = "all", limit: int = 5) -> list[Shape]:
    """The `limit` models of the family of `spec` whose N is nearest to `params`, nearest first.

    Heads keep their width and about how many share keys, d_ff its ratio to d_model (rounded up to 256), the vocabulary
    its size. For every width three depths are tried, around the one that comes nearest.
    Errors: Refused for a model whose layers are not alike or hold experts, and where no width comes near.
    """
    spec = as_fitted("--shapes", spec)
    known = sizes_of(spec)
    if any(name not in known for name in ("d_model", "n_layers", "n_heads")) or "n_experts" in known:
        raise Refused("--shapes", "a model whose layers are alike and hold no experts", spec.name)
    found = [
        shape for sizes in _candidates(known, spec, params, counts) if (shape := _built(spec, sizes, params, counts))
    ]
    if not found:
        raise Refused("--shapes", f"a size that widths of {WIDTH} and more reach", f"{params:.3g}")
    return sorted(found, key=lambda shape: abs(shape.off))[:limit]


def _candidates(known: Mapping[str, int], spec: ModelSpec, params: float, counts: Counts) -> Iterator[dict[str, int]]:
    """For each width the depths at which N is near, where the shape stays like the family's."""
    d_head = known.get("d_head") or known["d_model"] // known["n_heads"]
    aspect = known["d_model"] / known["n_layers"]
    shared = known["n_heads"] / known.get("n_kv_heads", known["n_heads"])
    per_width = known["n_heads"] * d_head / known["d_model"]
    for d_model in range(WIDTH, 2**17, WIDTH):
        n_heads = round(d_model * per_width / d_head)
        if n_heads < 1 or n_heads % _even(n_heads):
            continue
        sizes = {"d_model": d_model, "n_heads": n_heads}
        if "n_kv_heads" in known:
            sizes["n_kv_heads"] = _divisor(n_heads, n_heads / shared)
        if "d_ff" in known:
            sizes["d_ff"] = -(-known["d_ff"] * d_model // (known["d_model"] * 2 * WIDTH)) * 2 * WIDTH
        if sizes.get("n_kv_heads") == 0:
            continue
        one, two = (counted(with_sizes(spec, sizes | {"n_layers": n}), counts) for n in (1, 2))
        nearest = round(1 + (params - one) / (two - one))
        for n_layers in range(max(1, nearest - 1), nearest + 2):
            if 1 / SQUAT <= d_model / n_layers / aspect <= SQUAT:
                yield sizes | {"n_layers": n_layers}
        if two > 2 * params:
            return


def _even(n_heads: int) -> int:
    """What the number of heads must be a multiple of, so that GPUs can share them: 8 for 32 to 63, 2 for 8 to 15."""
    return max(1, 2 ** (n_heads.bit_length() - 3))


def _divisor(number: int, near: float) -> int:
    """The whole divisor of `number` nearest to `near`; 0 where none is within a factor of two of it."""
    divisors = [d for d in range(1, number + 1) if number % d == 0 and near / 2 <= d <= near * 2]
    return min(divisors, key=lambda d: abs(d - near), default=0)


def _built(spec: ModelSpec, sizes: dict[str, int], params: float, counts: Counts) -> Shape | None:
    """The model of these sizes; None where its parts do not fit together."""
    changed = with_sizes(spec, sizes).model_copy(update={"schedule": None})
    try:
        model = ModelSpec.model_validate(changed.model_dump())
    except (Refused, ValidationError, ArithmeticError):
        return None
    own = counted(model, counts)
    return Shape(sizes, int(own), sum(parameters(model).values()), own / params - 1, model)
