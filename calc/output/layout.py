"""Tables as a terminal has room for them: what is left out, cut or set on lines of its own where it is narrow."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from calc.output.dotted import short_names

_NUMBER = re.compile(r"(bus )?[-+]?\d[\d,.]*(e[-+]?\d+)?%?( [KMGTPEZk]?i?(B|FLOP|OP)(/s)?)?|–")
"""Beside plain numbers the bus bandwidth of a collective, which is named as such among other rates."""


class Table(NamedTuple):
    """Text laid out in columns; numbers are aligned to the right. note: a line below it.

    spare: columns that a terminal too narrow for all is not shown, the first of them first. dotted: a column that
    begins with names such as `layers.{}.mlp.up_proj`, of which such a terminal is shown the end, from a dot on.
    whole: a column of names that are to be copied, which are never broken; where a terminal is too narrow for them,
    each stands on a line of its own above the rest of its row.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    spare: Sequence[str] = ()
    dotted: str = ""
    whole: str = ""


def in_width(table: Table, width: int) -> Table:
    """The table as a terminal of so many columns is shown it."""
    if table.whole and least_width([table]) > width:
        return _names_above(table, width)
    return _shortened(_narrowed(table, width), width)


def _names_above(table: Table, width: int) -> Table:
    """The table of one column of lines, in which each whole name stands above the rest of its row, set in by two."""
    at = list(table.columns).index(table.whole)
    rest = _without(table, table.whole)._replace(whole="")
    rest = _narrowed(rest, width, margin=2)
    room = width - 2 - sum(2 + max(map(len, column)) for column in zip(rest.columns, *rest.rows, strict=True))
    last = max((len(row[-1]) for row in rest.rows), default=0)
    rest = rest._replace(
        rows=[(*row[:-1], "\n".join(textwrap.wrap(row[-1], max(room + last, 12)))) for row in rest.rows]
    )
    names, *rows = lines_of_rows(rest)
    lines = ["\n".join(("  " + line).rstrip() for line in row) for row in rows]
    shown = [(f"{row[at]}\n{line}",) for row, line in zip(table.rows, lines, strict=True)]
    return Table(["  " + names[0]], shown, table.title, rest.note, whole="  " + names[0])


def _narrowed(table: Table, width: int, margin: int = 0) -> Table:
    """The table without as many of its spare columns as it takes to fit beside a margin, and a word on them."""
    left_out: list[str] = []
    for name in table.spare:
        if least_width([table]) <= width - margin:
            break
        table = _without(table, name)
        left_out.append(name)
    if not left_out:
        return table
    lacking = f"not shown in {width} columns: {', '.join(left_out)}"
    return table._replace(note=f"{table.note}\n{lacking}" if table.note else lacking)


def _without(table: Table, name: str) -> Table:
    """The table without a column."""
    at = list(table.columns).index(name)
    rows = [[*row[:at], *row[at + 1 :]] for row in table.rows]
    return table._replace(columns=[*table.columns[:at], *table.columns[at + 1 :]], rows=rows)


def _shortened(table: Table, width: int) -> Table:
    """The table with names of its dotted column cut at a dot, where they are longer than other columns leave room."""
    if not table.dotted:
        return table
    at = list(table.columns).index(table.dotted)
    columns = list(zip(table.columns, *table.rows, strict=True))
    room = width - 2 - sum(2 + max(map(len, column)) for j, column in enumerate(columns) if j != at)
    cells = [row[at].split(" ") for row in table.rows]
    named = [
        " ".join([name, *rest])
        for name, (_, *rest) in zip(short_names([name for name, *_ in cells], room), cells, strict=True)
    ]
    rows = [[*row[:at], name, *row[at + 1 :]] for name, row in zip(named, table.rows, strict=True)]
    return table._replace(rows=rows)


def continued(command: str) -> str:
    """A command on lines that a terminal of 80 columns does not break, so that it can be copied."""
    return " \\\n    ".join(textwrap.wrap(command, 74, break_long_words=False, break_on_hyphens=False))


def least_width(tables: Sequence[Table]) -> int:
    """The width in which no number and no word of up to 12 letters must be broken."""
    widths = []
    for table in tables:
        right = right_aligned(table)
        columns = zip(table.columns, *table.rows, strict=True)
        least = {table.dotted: longest_word(table)} if table.dotted else {}
        kept = [number or bool(name and name == table.whole) for name, number in zip(table.columns, right, strict=True)]
        widths.append(
            sum(
                2 + max(least.get(column[0], 0), *(_width(cell) if whole else min(len(cell), 12) for cell in column))
                for column, whole in zip(columns, kept, strict=True)
            )
        )
    return max(widths, default=0)


def longest_word(table: Table) -> int:
    """The longest word in the dotted column, which is not broken."""
    at = list(table.columns).index(table.dotted)
    return max((len(word) for row in table.rows for word in row[at].split()), default=0)


def _width(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def right_aligned(table: Table) -> list[bool]:
    columns = list(zip(*table.rows, strict=True)) if table.rows else [()] * len(table.columns)
    return [any(cells) and all(not cell or _NUMBER.fullmatch(cell) for cell in cells) for cells in columns]


def lines_of_rows(table: Table) -> list[list[str]]:
    """The lines of each row, those of the columns' names first."""
    right = right_aligned(table)
    rows = [[cell.split("\n") for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(len(line) for cell in column for line in cell) for column in zip(*rows, strict=True)]
    found: list[list[str]] = []
    for row in rows:
        lines = [zip(parts, widths, right, strict=True) for parts in zip_longest(*row, fillvalue="")]
        found.append(
            [
                "  ".join(part.rstrip().rjust(width) if number else part.ljust(width) for part, width, number in cells)
                for cells in lines
            ]
        )
    return found
