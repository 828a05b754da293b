"""A quantity for very many configurations at once, by reading the tree with arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from calc import checks
from calc.ask import registry
from calc.ask.quantity import Quantity, sum_of
from calc.errors import Refused
from calc.spec import ModelSpec
from calc.spec.resizing import with_sizes
from calc.spec.run import LOAD_SIZES, PLAN_SIZES, Run
from calc.workers.identity import digest
from calc.workers.job import Job, Part
from calc.workers.workers import HERE, Workers

if TYPE_CHECKING:
    import numpy

OF_QUERY = (*LOAD_SIZES, *PLAN_SIZES)
SHAPING = ("pp", "interleave")
"""Sizes of a plan that are read as whole numbers, since how many stages there are depends on them."""
FEWEST = 1
"""Up to here a size of a load or of a model is read as a whole number where that can be: of one sequence, token or head
some views need no copy, which of a column nobody asks."""
CHUNK = 2**15
"""Configurations handled together: arrays of 256 KiB stay in a core's cache; larger and smaller were slower."""
PART = 2**19
"""Configurations that a worker is handed together."""


def sweep(
    spec: ModelSpec,
    quantities: Iterable[str],
    sizes: Mapping[str, Any],
    run: Run | None = None,
    *,
    workers: Workers = HERE,
    **words: Any,
) -> dict[str, numpy.ndarray]:
    """Values of `quantities` over arrays of sizes, as float64 (relative error about 1e-16 an operation).

    sizes: symbol name (`d_model`, `n_layers`, `batch`, `seq`, ...) or size of a plan (`dp`, `tp`, `zero`, ...) -> array
        of shape [n]; sizes not named keep the spec's value. Nothing checks that heads divide: a configuration that
        could not be built gets a number too. A plan that could not be carried out gets nan.
    run, words: what else is said of the run, as for `estimate`. workers: who works them out, with the same answer.
    Errors: Refused for unknown names and words, arrays of different lengths, and numbers that are negative or not
    finite; TypeError for an unknown option; those of `Workers.results`.
    """
    import numpy

    arrays = {name: numpy.asarray(values) for name, values in sizes.items()}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise Refused("sizes", "one or more arrays of one length", str(sorted(shapes)))
    columns = {name: checks.size(name, array, 0 if name == "zero" else 1) for name, array in arrays.items()}
    (n,) = next(iter(shapes))
    request = SweepRequest(spec, tuple(registry.find(name).name for name in quantities), worded(run, words))
    result = {name: numpy.empty(n) for name in request.quantities}
    parts = ({name: column[at : at + PART] for name, column in columns.items()} for at in range(0, n, PART))
    job = Job("sweep", lambda: {**request.described(), "sizes": _digest(columns)}, swept, request, parts, -(-n // PART))
    for place, part in workers.results(job):
        for name, column in part.columns.items():
            result[name][place * PART : (place + 1) * PART] = column
    return result


class SweepRequest(NamedTuple):
    """What all configurations of a sweep share."""

    spec: ModelSpec
    quantities: tuple[str, ...]
    run: Run

    def described(self) -> dict[str, Any]:
        """The same as JSON values."""
        run = self.run.model_dump(mode="json")
        return {"spec": self.spec.model_dump(mode="json"), "quantities": list(self.quantities), "run": run}


def worded(run: Run | None, words: Mapping[str, Any]) -> Run:
    """A run with other words, where there is one."""
    return Run(**words) if run is None else run.changed(**words)


def _digest(columns: Mapping[str, Any]) -> str:
    import numpy

    pieces = ((name.encode(), numpy.ascontiguousarray(column).tobytes()) for name, column in columns.items())
    return digest(*(piece for pair in pieces for piece in pair))


def swept(request: SweepRequest, columns: Mapping[str, Any]) -> Part:
    """The quantities of some configurations, a column each."""
    import numpy

    entries = [registry.find(name) for name in request.quantities]
    n = len(next(iter(columns.values())))
    result = {entry.name: numpy.empty(n) for entry in entries}
    for rows, fixed in _alike(columns, n):
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            index = slice(chunk.start, chunk.stop) if isinstance(chunk, range) else chunk
            some = {name: column[index] for name, column in columns.items()}
            for entry in entries:
                result[entry.name][index] = _values(entry, request, some, fixed)
    return Part(result)


def _alike(columns: Mapping[str, Any], n: int) -> Iterator[tuple[Any, dict[str, int]]]:
    """Rows that agree on what shapes a pipeline and on which sizes are the fewest, with those as whole numbers."""
    import numpy

    member = numpy.zeros(n, dtype=numpy.int64)
    fixed = {name: column for name, column in columns.items() if name in SHAPING or name not in PLAN_SIZES}
    for name, column in fixed.items():
        if name in SHAPING or column.min(initial=FEWEST + 1) <= FEWEST:
            kinds = column if name in SHAPING else numpy.minimum(column, FEWEST + 1)
            own, place = numpy.unique(kinds, return_inverse=True)
            # Groups are numbered anew for each size, so that no number grows beyond that of the rows.
            member = numpy.unique(member * len(own) + place, return_inverse=True)[1]
    groups = int(member.max(initial=0)) + 1
    for i in range(groups):
        rows = range(n) if groups == 1 else numpy.flatnonzero(member == i)
        first = {name: column[rows[0]] for name, column in fixed.items()} if n else {}
        yield rows, {name: int(value) for name, value in first.items() if name in SHAPING or value <= FEWEST}


def _values(entry: Quantity, request: SweepRequest, some: Mapping[str, Any], fixed: Mapping[str, int]) -> Any:
    """One quantity of some rows, which share the sizes of `fixed`; nan where what shapes a pipeline cannot be."""
    shaping = {name: value for name, value in fixed.items() if name in SHAPING}
    if len(shaping) < len(fixed):
        try:
            return _total(entry, request, {**some, **fixed})
        except (Refused, ArithmeticError):
            # Sizes that do not fit together, as heads that do not divide, have a number as columns alone.
            pass
    try:
        return _total(entry, request, {**some, **shaping})
    except Refused as refused:
        if refused.field in shaping:
            return math.nan
        raise


def _total(entry: Quantity, request: SweepRequest, sizes: Mapping[str, Any]) -> Any:
    spec = with_sizes(request.spec, {name: size for name, size in sizes.items() if name not in OF_QUERY})
    return sum_of(entry.compute(spec, request.run.placed(sizes)))
