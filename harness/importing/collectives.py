"""Tables of collectives: NCCL's and those of inference engines' own kernels, one model for each operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from calc.dtypes import dtype as number_format
from calc.errors import Refused
from calc.spec.hardware import Device
from calc.time.device.profile import Fit
from calc.time.kernels.boosting import spread
from calc.time.kernels.collective import OPS, CollectiveModel
from harness.importing.fitting import Imported, Wanted
from harness.importing.kinds import FORMATS
from harness.importing.reading import numbers, only, read_table

if TYPE_CHECKING:
    DataFrame = Any

COLUMNS = ("num_gpus", "message_size", "op_name", "kernel_source", "latency")
FORMAT_COLUMNS = ("nccl_dtype", "allreduce_dtype")
NAMES = {"alltoall": "all_to_all"}
"""Operations as tables name them -> as Envelope does, where they differ."""

FEWEST = 10
"""Sizes of messages for each number of GPUs, without which there is no curve."""


class _Rows(NamedTuple):
    gpus: Any
    size: Any
    seconds: Any


def holds_collectives(frame: DataFrame) -> bool:
    """Whether a table is of collectives, by its columns."""
    return set(COLUMNS) <= set(frame.columns) and any(column in frame.columns for column in FORMAT_COLUMNS)


def import_collectives(path: Path, device: Device, wanted: Wanted, tell: Callable[[str], None]) -> list[Imported]:
    """A model of each operation in the table. `message_size` counts elements: times halve with the width of a format.

    Of several formats the widest floating-point one is taken (switches do not add up integers), of several sources the
    last by name: they are repetitions by newer versions. Errors: Refused for tables that cannot be read.
    """
    where = str(path)
    frame = _rows_of(read_table(path), wanted, where)
    name, width = _format(frame, where)
    found = []
    for op in sorted(set(frame["op_name"])):
        known = NAMES.get(op, op)
        if known not in OPS:
            raise Refused(f"{where}: op_name", f"one of {', '.join(OPS)}", op[:60])
        rows = frame[frame["op_name"] == op]
        tell(f"fitting {known} to {len(rows):,} rows of {path.name}")
        found.append(_imported(path.name, known, name, rows, _read(rows, width, where), device, wanted.seed))
    return found


def _rows_of(frame: DataFrame, wanted: Wanted, where: str) -> DataFrame:
    """The rows of one framework, version, kernel, format and source."""
    # NCCL is the same library in whichever framework it was measured.
    library = set(frame["kernel_source"]) == {"NCCL"}
    for column, word in (("framework", wanted.framework), ("version", wanted.version)):
        if column in frame.columns and not library and (word or len(set(frame[column]) - {""}) > 1):
            frame = only(frame, column, word, f"--{column}")
    kernel = wanted.kernel or frame["kernel_source"].value_counts().index[0]
    frame = only(frame, "kernel_source", kernel, "--kernel")
    if "source" in frame.columns:
        frame = frame[frame["source"] == max(frame["source"])]
    column = next(column for column in FORMAT_COLUMNS if column in frame.columns)
    floating = [one for one in sorted(set(frame[column])) if FORMATS.get(one.lower(), "int8") not in ("int8", "fp8")]
    if not floating:
        raise Refused(f"{where}: {column}", f"one of {', '.join(FORMATS)}", ", ".join(sorted(set(frame[column])))[:60])
    return frame[frame[column] == floating[0]].assign(format=floating[0])


def _format(frame: DataFrame, where: str) -> tuple[str, float]:
    name = FORMATS[frame["format"].iloc[0].lower()]
    return name, number_format(name).bits / 8


def _read(frame: DataFrame, width: float, where: str) -> _Rows:
    gpus = numbers(frame, "num_gpus", where, least=2, most=2.0**20)
    size = numbers(frame, "message_size", where) * width
    return _Rows(gpus, size, numbers(frame, "latency", where, 1e-9, 1e9) * 1e-3)


def _imported(table: str, op: str, dtype: str, frame: DataFrame, rows: _Rows, device: Device, seed: int) -> Imported:
    """The curves through the rows that links of the device can carry, and their cross-validated error."""
    import numpy as np

    crossing = 1.0 if op in ("all_reduce", "send") else (rows.gpus - 1) / rows.gpus
    least = rows.size * crossing / (device.link_one_way or np.inf)
    possible = rows.seconds >= least
    rows = _Rows(*(column[possible] for column in rows))
    for count in sorted(set(rows.gpus)):
        if (rows.gpus == count).sum() < FEWEST:
            raise Refused(
                f"{table}: {op} of {count:g} GPUs", f"at least {FEWEST} rows", int((rows.gpus == count).sum())
            )
    model, ratio = CollectiveModel.cross_validated(op, *rows, frame["kernel_source"].iloc[0], seed)
    errors = np.abs(np.exp(-ratio) - 1)
    each = [(f"{count:g} GPUs", errors[rows.gpus == count]) for count in sorted(set(rows.gpus))]
    how: Literal["cross-validated"] = "cross-validated"
    return Imported(
        table=table,
        field="collectives",
        dtype=op,
        model=model.model_copy(update={"spread": spread(ratio)}),  # type: ignore[arg-type]
        fit=Fit(
            points=len(ratio),
            held_out=len(ratio),
            mape=float(errors.mean()),
            median_ape=float(np.median(errors)),
            worst=float(errors.max()),
            how=how,
        ),
        rows=len(possible),
        impossible=int((~possible).sum()),
        groups=tuple((name, len(part), float(part.mean()), float(np.median(part))) for name, part in each),
        source=frame["source"].iloc[0][:200] if "source" in frame.columns else "",
        framework=f"{dtype} messages",
    )
