"""`refit`: constants of serving from measured servers."""

from __future__ import annotations

from pathlib import Path

import click

from calc.errors import Refused
from calc.output.tables import Table, emit


@click.command(short_help="Constants of serving from a table of measured servers.")
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--configs", required=True, type=click.Path(path_type=Path), help="Folder of the models' config files.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder that the fitted files go to.")
@click.option("--rounds", type=click.IntRange(1), default=30, show_default=True, help="Of least squares, at most.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a file and line.")
def refit(table: Path, configs: Path, out: Path, rounds: int, fmt: str) -> None:
    """Fit the constants of servers anew to TABLE, a CSV in the columns of aiconfigurator's collection of InferenceMAX:
    what `calc/data/serving/constants.toml` and the folds that judge it hold. Prints how wrong each side of the split is
    by constants that did not see it. Intervals and judgements stay as shipped: look at them, and at the tables of
    docs/serving.md, before the files take the place of the shipped ones. It takes minutes.

    \b
    Example:
      python -m harness refit inferencemax.csv --configs path/to/configs --out fitted
    """
    from harness.serving.refitting import cases, refitted, save, unseen
    from harness.serving.rows import inferencemax

    if not table.is_file():
        raise Refused("TABLE", "a CSV file", str(table))
    for name, folder in (("--configs", configs), ("--out", out)):
        if not folder.is_dir():
            raise Refused(name, "a folder that exists", str(folder))
    known = cases(inferencemax(table), configs)
    found = refitted(known, rounds)
    wrong = unseen(known, found)
    for file in save(found, table, out):
        click.echo(f"wrote {file}", err=True)
    rows = [(name, f"{median:.1%}") for name, median in wrong.items()]
    title = f"{len(known):,} rows; seconds a token by constants that did not see the system, median"
    emit(
        [{"side": name, "off": median} for name, median in wrong.items()],
        [Table(("side of the split", "off"), rows, title)],
        fmt,
    )
