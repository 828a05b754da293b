"""From a table to fitted models and their error on the rows that they were not fitted to.

The split, written down before the first fit: shapes are divided by a hash of their sizes (`choosing.tenth`). Eight
tenths may be fitted to, at most `MOST` of them, chosen without a look at their times; on the ninth the quantiles are
taken that intervals are made of, or by cross-validation of the eight where it has few rows; errors are those of the
ninth and the tenth, and the share of times within the interval is that of the tenth alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from calc.errors import Refused, printable
from calc.spec.hardware import Device
from calc.time.device.profile import Fit, Profile, Provenance
from calc.time.models.boosting import spread
from calc.time.models.learned import Learned, fit_learned, fit_once
from calc.time.models.limits import has_peak, limits_named
from harness.importing.choosing import CALIBRATING, TESTING, chosen, tenth
from harness.importing.kinds import Kind, milliseconds, names_of, parts_of
from harness.importing.reading import not_in_seconds, only, read_table

if TYPE_CHECKING:
    DataFrame = Any

FEWEST = 40
"""Rows without which no model is fitted: it has a dozen constants, and a part of the rows is held out."""
MOST = 1000
"""Rows that a model is fitted to where no number is asked for."""
FEWEST_CALIBRATING = 60
"""Rows of the ninth tenth without which the interval is that of cross-validation."""
LEVEL = 0.9


class Wanted(NamedTuple):
    """What of a table is used. framework, version, kernel: None where the table holds one, or, of kernels, for all.
    points: rows to fit to, all others being held out; None: up to `MOST` of the shapes that may be fitted to."""

    framework: str | None = None
    version: str | None = None
    kernel: str | None = None
    points: int | None = None
    seed: int = 0


class Imported(NamedTuple):
    """A fitted model, where it goes, and what became of the table's rows.

    table: the file. key: of the model in its field. impossible: rows left out since no device of these limits can be so
    fast. groups: held-out error by what bounds a row, or by GPUs: (group, rows, mean, median absolute error as parts of
    the measured time).
    """

    table: str
    field: str
    dtype: str
    model: Any
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


class Rows(NamedTuple):
    """What one model is fitted to and held against: the rows of one name and kernel."""

    name: str
    frame: DataFrame
    shape: dict[str, Any]
    seconds: Any
    model: Learned
    total: int


def import_table(path: Path, device: Device, wanted: Wanted, tell: Callable[[str], None]) -> list[Imported]:
    """The models fitted to part of a table and held against the rest, one for each format, use and kernel.

    Errors: Refused for tables that cannot be read, or that hold no rows enough.
    """
    where = str(path)
    found = []
    for kind, frame in parts_of(read_table(path), where):
        for rows in rows_of(kind, frame, device, wanted, where):
            tell(f"fitting {kind.field}.{rows.name} to rows of {path.name}, {len(rows.seconds):,} in all")
            found.append(imported_rows(kind.field, rows, path, wanted))
    if not found:
        raise Refused(where, f"at least {FEWEST} rows that the device can have measured", "fewer of each kernel")
    return found


def rows_of(kind: Kind, frame: DataFrame, device: Device, wanted: Wanted, where: str) -> Iterator[Rows]:
    """The rows of each model that a table gives: by format and use, and by kernel, the usual one first; of several
    versions of a kernel, those of the one with most rows."""
    frame = only(frame, "framework", wanted.framework, "--framework")
    if wanted.version:
        frame = only(frame, "version", wanted.version, "--version")
    if wanted.kernel:
        frame = only(frame, "kernel_source", wanted.kernel, "--kernel")
    frame = frame.assign(model=names_of(kind, frame, where))
    for name in sorted(set(frame["model"])):
        same = frame[frame["model"] == name]
        if not has_peak(device, name):
            continue
        for i, kernel in enumerate(same["kernel_source"].value_counts().index):
            ran = same[same["kernel_source"] == kernel]
            ran = ran[ran["version"] == ran["version"].value_counts().index[0]]
            rows = _possible(f"{name}@{kernel}" if i else name, kind, ran, device, where)
            if len(rows.seconds) >= FEWEST:
                yield rows


def _possible(name: str, kind: Kind, frame: DataFrame, device: Device, where: str) -> Rows:
    """Rows that a device of these limits can have measured. Errors: Refused for times in seconds."""
    model = kind.model.prior(limits_named(device, name.partition("@")[0]), printable(frame["kernel_source"].iloc[0]))
    shape, seconds = kind.shape(frame, where), milliseconds(frame, where) * 1e-3
    least = model.physics(shape).least
    not_in_seconds(seconds, least, where)
    possible = seconds >= least
    return Rows(name, frame[possible], _at(shape, possible), seconds[possible], model, len(possible))


def imported_rows(field: str, rows: Rows, path: Path, wanted: Wanted) -> Imported:
    """The model of `field` fitted to part of `rows` and held against the rest."""
    import numpy as np

    fitted, calibrating, tested = split(rows, wanted)
    few = len(calibrating) < FEWEST_CALIBRATING
    model = (fit_learned if few else fit_once)(rows.model, _at(rows.shape, fitted), rows.seconds[fitted], wanted.seed)
    held = np.union1d(calibrating, tested)
    ratio = np.log(rows.seconds / model.predicted(rows.shape))
    if not few:
        model = model.model_copy(update={"spread": spread(ratio[calibrating])})
    return Imported(
        table=path.name,
        field=field,
        dtype=rows.name,
        model=model,
        fit=fit_of(ratio[held], len(fitted), _inside(model, ratio[tested])),
        rows=rows.total,
        impossible=rows.total - len(rows.seconds),
        groups=_groups(model, _at(rows.shape, held), ratio[held]),
        source=_text_of(rows.frame, "source"),
        framework=printable(f"{rows.frame['framework'].iloc[0]} {rows.frame['version'].iloc[0]}"),
    )


def split(rows: Rows, wanted: Wanted) -> tuple[Any, Any, Any]:
    """Indices of the rows to fit to, to take the interval's quantiles from, and to test on.

    Errors: Refused where `points` leaves no rows to test on.
    """
    import numpy as np

    count = len(rows.seconds)
    if wanted.points is not None:
        if not FEWEST <= wanted.points < count:
            raise Refused("--points", f"at least {FEWEST} and fewer than the table's {count:,} rows", wanted.points)
        fitted = chosen(rows.shape, wanted.points, wanted.seed)
        held = np.setdiff1d(np.arange(count), fitted)
        return fitted, held, held
    part = tenth(rows.shape)
    may = np.flatnonzero(part < CALIBRATING)
    fitted = may[chosen(_at(rows.shape, may), min(MOST, len(may)), wanted.seed)]
    calibrating, tested = np.flatnonzero(part == CALIBRATING), np.flatnonzero(part == TESTING)
    if not len(calibrating) or not len(tested):
        held = np.setdiff1d(np.arange(count), fitted)
        return fitted, held, held
    return fitted, calibrating, tested


def profile_of(
    imported: Sequence[Imported], device: Device, wanted: Wanted, licence: str, source: str | None = None
) -> Profile:
    """The profile that holds all of `imported`; source: whose they are, where tables do not say. Errors: Refused where
    two tables give the same model."""
    names = [one.name for one in imported]
    if len(set(names)) != len(names):
        raise Refused("TABLE", "one table for each model", f"several for {max(names, key=names.count)}")
    how = (
        f"{wanted.points:,} points of each model"
        if wanted.points
        else f"at most {MOST:,} of eight tenths of the shapes"
    )
    tables = ", ".join(dict.fromkeys(one.table for one in imported))
    profile = Profile(
        name=device.name,
        device=device.title,
        kind="cuda",
        catalogue=device.name,
        environment={"frameworks": ", ".join(dict.fromkeys(one.framework for one in imported))},
        fits={one.name: one.fit for one in imported},
        provenance=Provenance(
            source=source or "; ".join(dict.fromkeys(one.source or one.table for one in imported)),
            licence=licence,
            made=datetime.now(UTC).date().isoformat(),
            note=f"Constants and residuals fitted by `python -m harness import` to {how}, seed {wanted.seed}: "
            f"{tables}; errors are those on shapes that were not fitted to, of collectives cross-validated.",
        ),
    )
    models: dict[str, dict[str, Any]] = {}
    for one in imported:
        models.setdefault(one.field, {})[one.dtype] = one.model
    return profile.model_copy(update=models)


def _at(shape: dict[str, Any], which: Any) -> dict[str, Any]:
    return {name: column[which] for name, column in shape.items()}


def _inside(model: Learned, ratio: Any) -> float:
    """Share of times within the interval."""
    import numpy as np

    low, high = model.interval(LEVEL)
    return float(((ratio >= np.log(low)) & (ratio <= np.log(high))).mean())


def fit_of(ratio: Any, points: int, inside: float | None = None) -> Fit:
    """The error of held-out rows by their log(measured / predicted)."""
    import numpy as np

    errors = np.abs(np.exp(-ratio) - 1)
    return Fit(
        points=points,
        held_out=len(ratio),
        mape=float(errors.mean()),
        median_ape=float(np.median(errors)),
        worst=float(errors.max()),
        how="held out",
        inside=inside,
    )


def _groups(model: Learned, shape: dict[str, Any], ratio: Any) -> tuple[tuple[str, int, float, float], ...]:
    """The error by which of the three terms of physics is largest."""
    import numpy as np

    terms = model.physics(shape)
    largest = np.argmax([terms.compute, terms.memory, terms.launch], axis=0)
    errors = np.abs(np.exp(-ratio) - 1)
    parts = [(name, errors[largest == i]) for i, name in enumerate(("compute", "memory", "launch"))]
    return tuple((name, len(part), float(part.mean()), float(np.median(part))) for name, part in parts if len(part))


def _text_of(frame: DataFrame, column: str) -> str:
    """What a column of text says, shortened to what all rows begin with."""
    if column not in frame:
        return ""
    texts = sorted(set(frame[column]))
    same = next(
        (i for i, pair in enumerate(zip(texts[0], texts[-1], strict=False)) if len(set(pair)) > 1), len(texts[0])
    )
    return printable(texts[0][:same][:200])
