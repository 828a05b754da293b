"""Printing results: one record a model, as a table, JSON lines, CSV or Markdown."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

from calc.output.layout import Table, in_width, least_width, lines_of_rows, longest_word, right_aligned

WIDTH = 80
"""Columns of a terminal that nobody has made wider; sentences are wrapped to it."""

_ONE_WIDE = re.compile("[\n -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u03ff\u2010-\u2027\u2030-\u205e\u2070-\u22ff]*")
"""Text of which it is known how wide it is: Latin and Greek letters, signs, no emoji and nothing that combines."""


def emit(records: Sequence[Mapping[str, Any]], tables: Sequence[Table], fmt: str) -> None:
    """Print `records` (json, csv) or `tables` (table, markdown); the two say the same."""
    if fmt == "json":
        # Where signs would be written as others, they are escaped, so that a program reads what was meant.
        unicode = "utf" in (sys.stdout.encoding or "").lower()
        for record in records:
            click.echo(json.dumps(record, ensure_ascii=not unicode, allow_nan=False))
    elif fmt == "csv":
        _csv(records)
    elif fmt == "markdown":
        click.echo("\n\n".join(map(_markdown, tables)))
    else:
        _plain(tables)


def sentences(rows: Sequence[tuple[str, str]], columns: tuple[str, str] = ("", ""), most: int = 24) -> Table:
    """Two columns of words within WIDTH, wrapped between words; the first takes at most `most` of it."""
    first = [textwrap.wrap(name, most) or [""] for name, _ in rows]
    wide = max((len(line) for lines in (*first, [columns[0]]) for line in lines), default=0)
    second = (textwrap.wrap(sentence, WIDTH - wide - 2, break_on_hyphens=False) or [""] for _, sentence in rows)
    return Table(columns, [("\n".join(name), "\n".join(text)) for name, text in zip(first, second, strict=True)])


def side_by_side(records: Sequence[Mapping[str, Any]], title: str = "") -> Table:
    """A row a key, a column a model; nested objects get a row for each of their keys."""
    flat = [_flatten(record) for record in records]
    keys = [key for key in dict.fromkeys(key for record in flat for key in record) if key != "model"]
    rows = [(key, *(_cell(record.get(key)) for record in flat)) for key in keys]
    return Table(("", *(str(record["model"]) for record in flat)), rows, title)


def _flatten(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            for i, item in enumerate(value):
                flat |= (
                    _flatten(item, f"{prefix}{key}.{i}.") if isinstance(item, Mapping) else {f"{prefix}{key}.{i}": item}
                )
        else:
            flat[prefix + key] = value
    return flat


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    # No power of ten beside whole numbers; a fraction keeps one decimal, so that it is not taken for a count.
    return f"{value:,.1f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.6g}"


def _csv(records: Sequence[Mapping[str, Any]]) -> None:
    import csv

    flat = [_flatten(record) for record in records]
    writer = csv.DictWriter(
        sys.stdout, list(dict.fromkeys(key for record in flat for key in record)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(flat)


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    marks = ["---:" if right else "---" for right in right_aligned(table)]
    lines = [line(table.columns), line(marks), *map(line, table.rows)]
    before = [f"**{table.title}**", ""] if table.title else []
    after = ["", table.note] if table.note else []
    return "\n".join([*before, *lines, *after])


def _plain(tables: Sequence[Table]) -> None:
    # Text for a pipe or a file is as wide as it needs, unless COLUMNS says otherwise. A terminal wraps words, but a
    # number is never broken.
    narrow = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    text = _wide(tables) if not narrow and all(map(_one_wide, tables)) else _fitted(tables, narrow)
    click.echo("\n".join(line.rstrip() for line in text.splitlines()))


def _one_wide(table: Table) -> bool:
    """Whether each character takes one column, each column's name one line, and there is a cell."""
    if not table.columns or not table.rows or "\n" in "".join(table.columns):
        return False
    texts = (table.title, table.note, *table.columns, *(cell for row in table.rows for cell in row))
    return all(map(_ONE_WIDE.fullmatch, texts))


def _wide(tables: Sequence[Table]) -> str:
    """Tables in as many columns as they need, which is no work for a library that takes longer to load than to use."""
    return "\n".join("".join(f"{line}\n" for line in _lines(table)) for table in tables)


def _lines(table: Table) -> list[str]:
    names, *rows = lines_of_rows(table)
    shown = [names, *rows] if any(table.columns) else rows
    lines = [*([table.title] if table.title else []), *(line for row in shown for line in row)]
    return [*lines, table.note] if table.note else lines


def _fitted(tables: Sequence[Table], narrow: bool) -> str:
    """Tables in the columns of a terminal, or in very many."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    if narrow:
        tables = [in_width(table, Console().width) for table in tables]
    console = Console(width=max(least_width(tables), Console().width) if narrow else 10_000, highlight=False)
    with console.capture() as captured:
        for i, table in enumerate(tables):
            if i:
                console.print()
            if table.title:
                console.print(Text(table.title, "bold"))
            shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
            shown.show_header = any(table.columns)
            for j, (column, right) in enumerate(zip(table.columns, right_aligned(table), strict=True)):
                whole = right or (j == 0 and _named(table)) or (column != "" and column == table.whole)
                least = longest_word(table) if column and column == table.dotted else None
                side = "right" if right else "left"
                shown.add_column(Text(column), justify=side, no_wrap=whole, overflow="fold", min_width=least)
            for row in table.rows:
                shown.add_row(*map(Text, row))
            console.print(shown)
            if table.note:
                console.print(Text(table.note))
    return captured.get()


def _named(table: Table) -> bool:
    """Whether rows begin with a name of one word, which a reader may want to copy: it is not broken."""
    return all(len(row[0]) <= 20 and " " not in row[0] for row in table.rows)
