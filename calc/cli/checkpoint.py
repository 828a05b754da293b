"""`checkpoint`: what a model weighs as it is published, and whether files hold what its description says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calc.checkpoint.compare import Compared, compare
from calc.checkpoint.files import read_checkpoint
from calc.checkpoint.holdings import Holdings
from calc.cli import options
from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.quantities.shipped import shipped_bytes, shipped_formats
from calc.spec import ModelSpec
from calc.units import binary


@click.command(short_help="What a checkpoint weighs, by its config or its files.")
@options.model
@click.option("--files", type=click.Path(), help="A .safetensors or .gguf file, an index, or a folder with such files.")
@options.output
def checkpoint(model: ModelSpec, files: str | None, fmt: str) -> None:
    """Print the bytes of MODEL as its quantization_config says it is packed, and compare --files with it.

    Only headers of files are read: names, shapes and formats of their tensors. Packed matrices are compared by their
    bytes, all others (and GGUF, which says what it packed) by their elements. Tied weights that a file holds twice,
    modules that predict further tokens, and buffers are found beside what is described.

    \b
    Examples:
      python -m calc checkpoint gpt-oss-20b
      python -m calc checkpoint path/to/config.json --files path/to
    """
    if files is None:
        if model.shipped is None:
            raise Refused("quantization_config", "one in the config of MODEL, or --files", "nothing")
        emit([_shipped(model)], [_table(model)], fmt)
        return
    held = read_checkpoint(Path(files))
    compared = compare(model, held)
    emit([_held(model, held, compared)], _tables(held, compared), fmt)


def _shipped(model: ModelSpec) -> dict[str, Any]:
    parts = shipped_bytes(model)
    assert model.shipped is not None
    return {
        "model": model.name,
        "method": model.shipped.method,
        "bytes": sum(parts.values()),
        "formats": shipped_formats(model),
        "components": parts,
    }


def _table(model: ModelSpec) -> Table:
    made = _shipped(model)
    rows = [*((name, made["formats"][name]) for name in made["formats"]), ("total", made["bytes"])]
    title = f"{model.name} as published ({made['method']})"
    return Table(("format", "bytes", ""), [(name, f"{size:,}", binary(size)) for name, size in rows], title=title)


def _held(model: ModelSpec, held: Holdings, compared: Compared) -> dict[str, Any]:
    forms = {
        name: {"tensors": n, "elements": elements, "bytes": size} for name, (n, elements, size) in held.by_form.items()
    }
    return {
        "model": model.name,
        "kind": held.kind,
        "bytes": held.size,
        "formats": forms,
        "compared": {**compared._asdict(), "difference": compared.difference},
    }


def _tables(held: Holdings, compared: Compared) -> list[Table]:
    rows = [
        (name, f"{n:,}", f"{elements:,}", f"{size:,}", binary(size))
        for name, (n, elements, size) in held.by_form.items()
    ]
    total = ("total", f"{len(held.tensors):,}", f"{held.elements:,}", f"{held.size:,}", binary(held.size))
    against = [
        ("described", f"{compared.described:,}"),
        ("found", f"{compared.found:,}"),
        ("difference", f"{compared.difference:+,}"),
    ]
    return [
        Table(("format", "tensors", "elements", "bytes", ""), [*rows, total], title=f"{held.kind} files"),
        Table((compared.unit, ""), against, title="against the description"),
    ]
