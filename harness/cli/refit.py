"""`refit`: constants of serving from tables of measurements."""

from __future__ import annotations

from pathlib import Path

import click

from calc.errors import Refused
from calc.output.tables import Table, emit
from harness.serving.robust import ROUNDS

EXPERTS = "experts"
"""Constants of kernels, which no side of the split judges."""
REQUESTS = "requests"
"""What hosts take for a request, fitted to simulations beside all other constants as they are shipped."""


@click.command(short_help="Constants of serving from a table of measured servers.")
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--of",
    "what",
    type=click.Choice(["servers", REQUESTS, "llama.cpp", EXPERTS]),
    default="servers",
    show_default=True,
    help="What TABLE measured.",
)
@click.option("--configs", multiple=True, type=click.Path(path_type=Path), help="Folder of the models' config files.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder that the fitted files go to.")
@click.option("--rounds", type=click.IntRange(1), default=ROUNDS, show_default=True, help="Of least squares, at most.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a side and line.")
def refit(table: Path, what: str, configs: tuple[Path, ...], out: Path, rounds: int, fmt: str) -> None:
    """Fit the constants of servers anew to TABLE: what `calc/data/serving/` and the folds that judge it hold.

    \b
    servers    a CSV in the columns of aiconfigurator's collection of InferenceMAX
    requests   the same; of all constants, those of requests alone, once the
               others are in their place
    llama.cpp  a CSV of tokens a second of llama-bench, llama-batched-bench and
               Ollama
    experts    a folder of tables of kernels, SYSTEM/moe.csv.gz each

    Prints how wrong each side of the split is by constants that did not see it, and between which multiples of what is
    predicted 90 of 100 measured seconds lie. Intervals and judgements stay as shipped: look at them, and at the tables
    of docs/serving-measured.md, before the files take the place of the shipped ones. It takes a minute or two.

    \b
    Example:
      python -m harness refit inferencemax.csv --configs path/to/configs \\
          --out fitted
    """
    from harness.serving.refitting import FITTED, refitted, refitted_requests, save, save_experts, unseen

    for name, folder in (*(("--configs", each) for each in configs), ("--out", out)):
        if not folder.is_dir():
            raise Refused(name, "a folder that exists", str(folder))
    if what == EXPERTS:
        click.echo(f"wrote {save_experts(table, out)}", err=True)
        return
    if not table.is_file():
        raise Refused("TABLE", "a CSV file", str(table))
    kind = FITTED["servers" if what == REQUESTS else what]
    known = kind.read(table, configs)
    found = refitted_requests(known, rounds) if what == REQUESTS else refitted(kind, known, rounds)
    wrong = unseen(kind, known, found)
    for file in save(kind, found, table, out):
        click.echo(f"wrote {file}", err=True)
    rows = [
        (name, f"{each.rows:,}", f"{each.median:.1%}", f"{each.mean:.1%}", f"{each.low:.2f} to {each.high:.2f}")
        for name, each in wrong.items()
    ]
    title = "Seconds (of servers, a token's) by constants that did not see the system"
    emit(
        [{"side": name, **each._asdict()} for name, each in wrong.items()],
        [Table(("side of the split", "rows", "off, median", "mean", "90 of 100 measured"), rows, title)],
        fmt,
    )
