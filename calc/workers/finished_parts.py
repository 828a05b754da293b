"""Finished chunks on disk: a folder a job, a Parquet file a chunk, so that a restart runs only what is not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from calc.errors import Refused
from calc.workers.identity import canonical, code, digest
from calc.workers.job import Job, Part

FACTS = b"envelope.facts"
PIP = "pip install -e '.[cluster]' in a clone"


class FinishedParts:
    """The parts of one job. Its folder is named after what was asked and by which code, so that parts of different
    questions never meet.

    Errors: Refused for what is no folder, and with the pip command where pyarrow is missing.
    """

    def __init__(self, folder: Path, job: Job) -> None:
        try:
            import pyarrow.parquet as parquet
        except ModuleNotFoundError as error:
            raise Refused("--keep", f"the extra cluster: {PIP}", f"no module {error.name}") from None
        self._parquet = parquet
        described = {"job": job.name, "chunks": job.count, "code": code(), "asked": dict(job.described())}
        self.folder = folder / f"{job.name}-{digest(canonical(described))}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise Refused("--keep", "a folder", f"a file at {folder}") from None
        if not (self.folder / "job.json").exists():
            self._replace(self.folder / "job.json", json.dumps(described, indent=1).encode())

    def known(self) -> frozenset[int]:
        """The places of the chunks that are there."""
        names = (file.stem.removeprefix("part-") for file in self.folder.glob("part-*.parquet"))
        return frozenset(int(name) for name in names if name.isdecimal())

    def write(self, place: int, part: Part) -> None:
        """Put a part there, whole or not at all."""
        import pyarrow as pa

        table = pa.table(dict(part.columns)).replace_schema_metadata({FACTS: json.dumps(part.facts).encode()})
        sink = pa.BufferOutputStream()
        self._parquet.write_table(table, sink)
        self._replace(self._file(place), sink.getvalue().to_pybytes())

    def read(self, place: int) -> Part:
        """A part that is there. Errors: Refused for a file that is none."""
        import pyarrow as pa

        file = self._file(place)
        try:
            table = self._parquet.read_table(file)
            facts: dict[str, Any] = json.loads((table.schema.metadata or {})[FACTS])
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            expected = "parts that were written here; delete this one and it is worked out again"
            raise Refused("--keep", expected, f"{file}: {type(error).__name__}") from None
        return Part({name: table[name].to_numpy() for name in table.column_names}, facts)

    def _file(self, place: int) -> Path:
        return self.folder / f"part-{place:09d}.parquet"

    def _replace(self, file: Path, data: bytes) -> None:
        """A file that is never seen half written, and is on the disk once it is seen."""
        made = file.with_name(f".{file.name}.{os.getpid()}")
        with made.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        made.replace(file)
