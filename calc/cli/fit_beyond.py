"""`fit --against` and `fit --accuracy`: two recipes compared, and what a task will be solved by."""

from __future__ import annotations

from typing import Any

import click

from calc.cli.fit_tables import row
from calc.cli.run_options import given
from calc.errors import Refused, printable
from calc.output.tables import Table

_READ = frozenset(("runs", "params", "tokens", "loss", "where", "skip_invalid", "refits", "level", "seed", "fmt"))
"""Options that both read."""
_ALSO = {"against": {"against"}, "accuracy": {"accuracy", "chance", "top", "compute"}}


def nothing_else(mode: str) -> None:
    """Errors: Refused for an option that was given and changes nothing beside --against or --accuracy."""
    for option in click.get_current_context().command.params:
        if option.name not in _READ | _ALSO[mode] and option.opts[0].startswith("--") and given(option.name or ""):
            raise Refused(option.opts[0], f"no --{mode} beside it, in which it changes nothing", "both")


def _note(notes: tuple[str, ...]) -> None:
    for note in notes:
        click.echo(printable(f"note: {note}"), err=True)


def compared(first: str, second: str, given: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Table]]:
    """How much compute the second recipe saves against the first."""
    from calc.fitting.recipes import compare
    from calc.fitting.runs import read

    tables = [read(path, given["columns"], given["where"], given["skip_invalid"]) for path in (first, second)]
    for path, table in zip((first, second), tables, strict=True):
        _note(tuple(f"{path}: {note}" for note in table.notes))
    found = compare(*tables, refits=given["refits"], level=given["level"], seed=given["seed"])
    rows = [
        row(f"at {compute:.3g} FLOP", value, band)
        for compute, value, band in zip(found.compute, found.multiplier, found.intervals, strict=True)
    ]
    rows.append(row("growth, tenfold", found.growth, found.growth_interval))
    ends = (f"{100 * given['level']:.3g} % from", "to") if given["refits"] else ()
    rows, columns = [each[: 2 + len(ends)] for each in rows], ("", "value", *ends)
    title = f"FLOP of {first} over those of {second} for the same loss"
    note = f"above 1 the second saves compute: {found.grows}; growth is that of its logarithm"
    constants = [row(name, value, None)[:2] for name, value in found.constants.items()]
    records = [
        {
            "constants": dict(found.constants),
            "compute": list(found.compute),
            "multiplier": list(found.multiplier),
            "intervals": [band and band._asdict() for band in found.intervals],
            "growth": found.growth,
            "growth_interval": found.growth_interval and found.growth_interval._asdict(),
            "notes": [note for table in tables for note in table.notes],
        }
    ]
    return records, [Table(columns, rows, title, note), Table(("", "value"), constants, "E + K / C^gamma of each")]


def solved(
    path: str, column: str, chance: float, top: float | None, words: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[Table]]:
    """How much of a task models solve, and what the compute-optimal one would."""
    import numpy as np

    from calc.fitting.cells import as_numbers
    from calc.fitting.columns import column_named
    from calc.fitting.downstream import fit_task, refitted
    from calc.fitting.runs import read, table

    given = read(path, words["columns"], words["where"], words["skip_invalid"])
    frame, name = table(path, words["where"])
    shares = as_numbers(frame.loc[np.asarray(given.row) - 1, column_named(frame, column, name)])
    found = fit_task(given, shares, chance, top, refits=0, compute=words["compute"])
    _note(found.loss.warnings)
    best = found.loss.optimum
    rows = [row(name, value, None) for name, value in found.constants.items()]
    record = {"constants": dict(found.constants), "error": found.error, "chained": found.chained}
    if best is not None:
        many = refitted(given, shares, chance, max(words["refits"], 1), words["seed"], top)
        band = found.interval(best["params"], best["tokens"], many, words["level"])
        predicted = found.predict(best["params"], best["tokens"])
        rows.append(row(f"accuracy at {found.loss.compute:.3g} FLOP", predicted, band))
        record |= {"compute": found.loss.compute, "accuracy": predicted, "interval": band and band._asdict()}
    off = f"off by {found.error:.2%} from the loss, by {found.chained:.2%} from N and D"
    note = f"{off}; the interval is the sigmoid's alone"
    title = "accuracy: floor + (top - floor) / (1 + e^(slope (loss - middle)))"
    return [record], [Table(("", "value", "from", "to"), rows, title, note)]
