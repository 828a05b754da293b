"""Notes about a model, and about what was asked, on stderr."""

from __future__ import annotations

from collections.abc import Sequence

import click

from calc.errors import printable
from calc.spec import ModelSpec
from calc.spec.assumption import DefaultTaken


def remark(text: str) -> None:
    """A message about what was asked on stderr."""
    click.echo(f"note: {text}", err=True)


def note(spec: ModelSpec, text: str) -> None:
    """A message about a model on stderr, on one line."""
    click.echo(printable(f"note: {spec.name}: {text}"), err=True)


def grouped(notes: Sequence[str | DefaultTaken]) -> list[str]:
    """Notes of a model, with all defaults that were taken for absent keys in one, where the first of them stood."""
    taken = dict.fromkeys(note for note in notes if isinstance(note, DefaultTaken))
    if len(taken) < 2:
        return list(dict.fromkeys(map(str, notes)))
    values = ", ".join(f"{one.key} {one.value}" for one in taken)
    whole = f"absent keys, for which this family's defaults are taken: {values}"
    return list(dict.fromkeys(whole if isinstance(note, DefaultTaken) else note for note in notes))


def warn_beyond(spec: ModelSpec, length: int, option: str) -> None:
    """Say so on stderr where a sequence is longer than the model is made for."""
    if spec.max_seq_len is not None and length > spec.max_seq_len:
        note(spec, f"{option} {length} is past the {spec.max_seq_len} tokens it is made for")
