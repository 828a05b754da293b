"""A quantity for very many configurations at once, by reading the tree with arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from calc import checks
from calc.errors import Refused
from calc.quantities import registry
from calc.query import LOADS, Query, QueryOptions
from calc.reading import with_sizes
from calc.spec import ModelSpec

if TYPE_CHECKING:
    import numpy

CHUNK = 2**15
"""Configurations handled together: arrays of 256 KiB stay in a core's cache; larger and smaller were slower."""


def sweep(
    spec: ModelSpec, quantities: Iterable[str], sizes: Mapping[str, Any], **options: Unpack[QueryOptions]
) -> dict[str, numpy.ndarray]:
    """Values of `quantities` over arrays of sizes, as float64 (relative error about 1e-16 an operation).

    sizes: symbol name (`d_model`, `n_layers`, `batch`, `seq`, ...) -> array of shape [n]; sizes not named keep the
        spec's value. Nothing checks that heads divide: a configuration that could not be built gets a number too.
    options: the query's other fields, as for `estimate`.
    Errors: Refused for unknown names and words, arrays of different lengths, and numbers that are negative or not
    finite; TypeError for an unknown option.
    """
    import numpy

    arrays = {name: numpy.asarray(values) for name, values in sizes.items()}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise Refused("sizes", "one or more arrays of one length", str(sorted(shapes)))
    columns = {name: checks.size(name, array) for name, array in arrays.items()}
    (n,) = next(iter(shapes))
    entries = [registry.find(name) for name in quantities]
    asked = Query(**options)
    result = {entry.name: numpy.empty(n) for entry in entries}
    for start in range(0, n, CHUNK):
        chunk = slice(start, start + CHUNK)
        some = {name: column[chunk] for name, column in columns.items()}
        load: dict[str, Any] = {name: some.pop(name) for name in LOADS if name in some}
        changed = with_sizes(spec, some)
        query = replace(asked, **load)
        for entry in entries:
            result[entry.name][chunk] = registry.total(entry.compute(changed, query))
    return result
