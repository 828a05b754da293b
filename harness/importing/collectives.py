"""Tables of collectives: NCCL's and those of inference engines' own kernels, one model for each operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from calc.dtypes import dtype as number_format
from calc.errors import Refused, printable
from calc.spec.hardware import Device
from calc.time.models.boosting import spread
from calc.time.models.collective import COLLECTIVES, CollectiveModel
from harness.importing.fitting import LEVEL, Imported, Wanted, fit_of
from harness.importing.kinds import FORMATS
from harness.importing.reading import not_in_seconds, numbers, only, read_table

if TYPE_CHECKING:
    DataFrame = Any

COLUMNS = ("num_gpus", "message_size", "op_name", "kernel_source", "latency")
FORMAT_COLUMNS = ("nccl_dtype", "allreduce_dtype")
NAMES = {"alltoall": "all_to_all"}
"""Operations as tables name them -> as Envelope does, where they differ."""

FEWEST = 10
"""Sizes of messages for each number of GPUs, without which there is no curve."""


SMALL = 64 * 1024
"""Bytes up to which launching is what takes time; errors are those of larger messages."""


class _Rows(NamedTuple):
    gpus: Any
    size: Any
    seconds: Any


def holds_collectives(frame: DataFrame) -> bool:
    """Whether a table is of collectives, by its columns."""
    return set(COLUMNS) <= set(frame.columns) and any(column in frame.columns for column in FORMAT_COLUMNS)


def import_collectives(path: Path, device: Device, wanted: Wanted, tell: Callable[[str], None]) -> list[Imported]:
    """A model of each operation in the table, NCCL's by the operation's name, those of an engine's own kernels with
    how they were launched behind it. `message_size` counts elements: times halve with the width of a format.

    Of several sources the last by name is taken: they are repetitions by newer versions. Errors: Refused for tables
    that cannot be read.
    """
    where = str(path)
    frame = _rows_of(read_table(path), wanted, where)
    found = []
    for (op, kernel), rows in frame.groupby(["op_name", "kernel_source"], sort=True):
        known = NAMES.get(op, op)
        if known not in COLLECTIVES:
            raise Refused(f"{where}: op_name", f"one of {', '.join(COLLECTIVES)}", op[:60])
        tell(f"fitting {known} to {len(rows):,} rows of {path.name}")
        found.append(
            _imported(path.name, known, known + launched(kernel), rows, _read(rows, where), device, wanted.seed)
        )
    return found


def launched(kernel: str) -> str:
    """How an engine's own kernel was launched, behind the name of its model; nothing for NCCL's."""
    if kernel == "NCCL":
        return ""
    return ".eager" if kernel.endswith("_eager") else ".graph"


def _rows_of(frame: DataFrame, wanted: Wanted, where: str) -> DataFrame:
    """The rows of one framework, version, kernel and source, in formats whose widths are known."""
    # NCCL is the same library in whichever framework it was measured.
    library = set(frame["kernel_source"]) == {"NCCL"}
    for column, word in (("framework", wanted.framework), ("version", wanted.version)):
        if column in frame.columns and not library and (word or len(set(frame[column]) - {""}) > 1):
            frame = only(frame, column, word, f"--{column}")
    if wanted.kernel:
        frame = only(frame, "kernel_source", wanted.kernel, "--kernel")
    if "source" in frame.columns:
        frame = frame[frame["source"] == max(frame["source"])]
    column = next(column for column in FORMAT_COLUMNS if column in frame.columns)
    if strange := sorted(name for name in set(frame[column]) if name.lower() not in FORMATS):
        raise Refused(f"{where}: {column}", f"one of {', '.join(FORMATS)}", strange[0][:60])
    formats = frame[column].map(lambda name: FORMATS[name.lower()])
    frame = frame.assign(width=formats.map(lambda name: number_format(name).bits / 8))
    # Switches add up floating-point numbers alone: sums of integers take another way.
    integers = (frame["op_name"] == "all_reduce") & formats.str.startswith("int")
    return frame if integers.all() else frame[~integers]


def _read(frame: DataFrame, where: str) -> _Rows:
    import numpy as np

    gpus = numbers(frame, "num_gpus", where, least=2, most=2.0**20)
    size = numbers(frame, "message_size", where) * np.asarray(frame["width"], dtype=float)
    return _Rows(gpus, size, numbers(frame, "latency", where, 1e-9, 1e9) * 1e-3)


def _imported(table: str, op: str, name: str, frame: DataFrame, rows: _Rows, device: Device, seed: int) -> Imported:
    """The curves through the rows that links of the device can carry, and their cross-validated error above `SMALL`."""
    import numpy as np

    crossing = 1.0 if op in ("all_reduce", "send") else (rows.gpus - 1) / rows.gpus
    least = rows.size * crossing / (device.link_one_way or np.inf)
    not_in_seconds(rows.seconds, least, table)
    possible = rows.seconds >= least
    rows = _Rows(*(column[possible] for column in rows))
    for count in sorted(set(rows.gpus)):
        if (rows.gpus == count).sum() < FEWEST:
            raise Refused(
                f"{table}: {op} of {count:g} GPUs", f"at least {FEWEST} rows", int((rows.gpus == count).sum())
            )
    model, ratio = CollectiveModel.cross_validated(op, *rows, frame["kernel_source"].iloc[0], seed)
    errors, large = np.abs(np.exp(-ratio) - 1), rows.size > SMALL
    each = [(f"{count:g} GPUs", errors[large & (rows.gpus == count)]) for count in sorted(set(rows.gpus))]
    fit = fit_of(ratio[large], len(ratio), inside(rows, ratio))
    return Imported(
        table=table,
        field="collectives",
        dtype=name,
        model=model.model_copy(update={"spread": spread(ratio, few=True)}),
        fit=fit.model_copy(update={"how": "cross-validated"}),
        rows=len(possible),
        impossible=int((~possible).sum()),
        groups=tuple((name, len(part), float(part.mean()), float(np.median(part))) for name, part in each),
        source=frame["source"].iloc[0][:200] if "source" in frame.columns else "",
        framework=printable(frame["kernel_source"].iloc[0]),
    )


def inside(rows: _Rows, ratio: Any) -> float:
    """Share of times within the 90 % interval of the others: quantiles are those of every other row."""
    import numpy as np

    order = np.lexsort((rows.size, rows.gpus))
    halves = (order[::2], order[1::2])
    shares = [
        _share(spread(ratio[one], few=True).interval(LEVEL), ratio[other]) for one, other in (halves, halves[::-1])
    ]
    return float(np.mean(shares))


def _share(interval: tuple[float, float], ratio: Any) -> float:
    import numpy as np

    return float(((ratio >= np.log(interval[0])) & (ratio <= np.log(interval[1]))).mean())
