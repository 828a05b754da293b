"""From a table to a fitted model and its error on the rows that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from calc.errors import Refused, printable
from calc.spec.hardware import Device
from calc.time.device.limits import limits_of
from calc.time.device.profile import Fit, Profile, Provenance
from calc.time.kernels.boosting import spread
from calc.time.kernels.learned import Learned
from harness.importing.choosing import chosen
from harness.importing.kinds import KINDS, format_of, kind_of
from harness.importing.reading import numbers, only, read_table

if TYPE_CHECKING:
    DataFrame = Any

FEWEST = 40
"""Rows without which no model is fitted: it has a dozen constants, and a part of the rows is held out."""


class Wanted(NamedTuple):
    """What of a table is used. framework, version, kernel: None where the table holds one, or, of kernels, the one with
    most rows. points: rows to fit to, None for all but a fifth."""

    framework: str | None = None
    version: str | None = None
    kernel: str | None = None
    points: int | None = None
    seed: int = 0


class Imported(NamedTuple):
    """A fitted model, where it goes, and what became of the table's rows.

    table: the file. impossible: rows left out since no device of these limits can be so fast. groups: held-out error by
    what bounds a row, or by GPUs: (group, rows, mean, median absolute error as parts of the measured time).
    """

    table: str
    field: str
    dtype: str
    model: Learned
    fit: Fit
    rows: int
    impossible: int
    groups: tuple[tuple[str, int, float, float], ...]
    source: str
    framework: str

    @property
    def name(self) -> str:
        """As `Profile.fits` calls it."""
        return f"{self.field}.{self.dtype}"


def import_table(path: Path, device: Device, wanted: Wanted, tell: Callable[[str], None]) -> Imported:
    """The model fitted to part of a table and held against the rest. Errors: Refused for tables that cannot be read."""
    import numpy as np

    where = str(path)
    frame = read_table(path)
    kind = KINDS[kind_of(frame, where)]
    frame = _rows_of(frame, wanted)
    dtype = format_of(frame, kind.dtype, where)
    limits = limits_of(device, dtype)
    start = kind.prior(limits, frame["kernel_source"].iloc[0])
    shape, seconds = kind.shape(frame, where), numbers(frame, "latency_ms", where, 1e-9, 1e9) * 1e-3
    possible = seconds >= start.physics(shape).least
    shape, seconds = _at(shape, possible), seconds[possible]
    _enough(where, len(seconds), wanted.points)
    fitted = chosen(shape, wanted.points or round(0.8 * len(seconds)), wanted.seed)
    tell(f"fitting {kind.field}.{dtype} to {len(fitted):,} of {len(seconds):,} rows of {path.name}")
    model = kind.model.fit(_at(shape, fitted), seconds[fitted], limits, start.kernel_source, wanted.seed)
    held = np.setdiff1d(np.arange(len(seconds)), fitted)
    ratio = np.log(seconds[held] / model.predicted(_at(shape, held)))
    return Imported(
        table=path.name,
        field=kind.field,
        dtype=dtype,
        model=model.model_copy(update={"spread": spread(ratio)}),
        fit=_fit(ratio, len(fitted)),
        rows=len(possible),
        impossible=int((~possible).sum()),
        groups=_groups(model, _at(shape, held), ratio),
        source=_said(frame, "source"),
        framework=f"{frame['framework'].iloc[0]} {frame['version'].iloc[0]}",
    )


def profile_of(imported: Sequence[Imported], device: Device, wanted: Wanted, licence: str) -> Profile:
    """The profile that holds all of `imported`. Errors: Refused where two tables give the same model."""
    names = [one.name for one in imported]
    if len(set(names)) != len(names):
        raise Refused("TABLE", "one table for each model", f"several for {max(names, key=names.count)}")
    how = f"{wanted.points:,} points of each table" if wanted.points else "four fifths of each table's rows"
    profile = Profile(
        name=device.name,
        device=device.title,
        kind="cuda",
        catalogue=device.name,
        environment={one.name: f"{one.framework}, {one.model.kernel_source}" for one in imported},
        fits={one.name: one.fit for one in imported},
        provenance=Provenance(
            source="; ".join(dict.fromkeys(one.source or one.table for one in imported)),
            licence=licence,
            made=datetime.now(UTC).date().isoformat(),
            note=f"Constants and residuals fitted by `python -m harness import` to {how}, seed {wanted.seed}: "
            f"{', '.join(dict.fromkeys(one.table for one in imported))}; errors and spreads are those on all other "
            "rows, of collectives cross-validated.",
        ),
    )
    models: dict[str, dict[str, Learned]] = {}
    for one in imported:
        models.setdefault(one.field, {})[one.dtype] = one.model
    return profile.model_copy(update=models)


def _rows_of(frame: DataFrame, wanted: Wanted) -> DataFrame:
    """The rows of one framework, version and kernel."""
    frame = only(frame, "framework", wanted.framework, "--framework")
    frame = only(frame, "version", wanted.version, "--version")
    kernel = wanted.kernel or frame["kernel_source"].value_counts().index[0]
    return only(frame, "kernel_source", kernel, "--kernel")


def _enough(where: str, rows: int, points: int | None) -> None:
    if rows < FEWEST:
        raise Refused(where, f"at least {FEWEST} rows that the device can have measured", rows)
    if points is not None and not FEWEST <= points < rows:
        raise Refused("--points", f"at least {FEWEST} and fewer than the table's {rows:,} rows", points)


def _at(shape: dict[str, Any], which: Any) -> dict[str, Any]:
    return {name: column[which] for name, column in shape.items()}


def _fit(ratio: Any, points: int) -> Fit:
    import numpy as np

    errors = np.abs(np.exp(-ratio) - 1)
    return Fit(
        points=points,
        held_out=len(ratio),
        mape=float(errors.mean()),
        median_ape=float(np.median(errors)),
        worst=float(errors.max()),
        how="held out",
    )


def _groups(model: Learned, shape: dict[str, Any], ratio: Any) -> tuple[tuple[str, int, float, float], ...]:
    """The error by which of the three terms of physics is largest."""
    import numpy as np

    terms = model.physics(shape)
    largest = np.argmax([terms.compute, terms.memory, terms.launch], axis=0)
    errors = np.abs(np.exp(-ratio) - 1)
    parts = [(name, errors[largest == i]) for i, name in enumerate(("compute", "memory", "launch"))]
    return tuple((name, len(part), float(part.mean()), float(np.median(part))) for name, part in parts if len(part))


def _said(frame: DataFrame, column: str) -> str:
    """What a column of text says, shortened to what all rows begin with."""
    if column not in frame:
        return ""
    said = sorted(set(frame[column]))
    same = next((i for i, pair in enumerate(zip(said[0], said[-1], strict=False)) if len(set(pair)) > 1), len(said[0]))
    return printable(said[0][:same][:200])
