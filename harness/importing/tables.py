"""A table of any kind, told by its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from calc.spec.hardware import Device
from harness.importing.collectives import holds_collectives, import_collectives
from harness.importing.exchanges import holds_exchanges, import_exchanges
from harness.importing.fitting import Imported, Wanted, import_table
from harness.importing.reading import read_table

LIBRARIES = ("NCCL", "deepep")
"""What runs under every framework alike: its tables go into a profile whichever they name."""


def of_framework(paths: Sequence[Path], framework: str | None, tell: Callable[[str], None]) -> list[Path]:
    """Those of several tables that have rows of a framework, or are of a library's kernels; one table, or all where no
    framework is named."""
    if framework is None or len(paths) == 1:
        return list(paths)
    found = []
    for path in paths:
        frame = read_table(path)
        named = {name.lower() for name in frame["framework"]} if "framework" in frame.columns else set()
        library = "kernel_source" in frame.columns and set(frame["kernel_source"]) <= set(LIBRARIES)
        if framework.lower() in named or library:
            found.append(path)
        else:
            tell(f"no rows of {framework} in {path.name}: left out")
    return found


def import_any(path: Path, device: Device, wanted: Wanted, tell: Callable[[str], None]) -> list[Imported]:
    """The models that a table gives, each with its error on rows that it was not fitted to. Errors: Refused."""
    head = read_table(path, rows=1)
    if holds_collectives(head):
        return import_collectives(path, device, wanted, tell)
    if holds_exchanges(head):
        return import_exchanges(path, device, wanted, tell)
    return import_table(path, device, wanted, tell)
