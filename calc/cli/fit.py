"""`fit`: the constants of a scaling law from one's own runs."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import completing, fit_beyond, fit_tables, options
from calc.cli.amounts import Amount
from calc.errors import Refused, printable
from calc.fitting import mixtures
from calc.fitting.average import average
from calc.fitting.fit import Fit
from calc.fitting.forms import COMPUTE, FORMS
from calc.fitting.published import TEMPLATES, LawFit, fit_law
from calc.laws import ALIASES, BY_NAME
from calc.output.progress import Progress
from calc.output.tables import emit
from calc.reading.numbers import Number
from calc.workers.workers import HERE, Workers

_COLUMNS = ("params", "tokens", "loss", "flops", "run")


def _column(what: str, of: str) -> Any:
    return click.option(f"--{what}", metavar="COLUMN", help=f"Column of {of}. [default: found by its name]")


@click.command(short_help="The constants of a scaling law from your own runs, with intervals.")
@click.argument("runs", metavar="RUNS.csv", shell_complete=completing.files)
@click.option(
    "--law",
    shell_complete=completing.laws,
    default="chinchilla",
    show_default=True,
    help="chinchilla, equal-exponents, kaplan, free-k, or all of them, ranked; compute on a ladder of one number of "
    "tokens a parameter; isoflop or envelope without a form; farseer; shukor or shukor-joint with --mixture; or a law "
    "of `laws` that predicts a loss.",
)
@click.option(
    "--objective",
    type=click.Choice(["huber", "lad", "squares"]),
    default="huber",
    show_default=True,
    help="What is minimised over ln predicted - ln observed.",
)
@click.option(
    "--delta", type=Number(above=0), default=1e-3, show_default=True, help="Where Huber's loss turns from square."
)
@click.option("--refits", type=int, default=4000, show_default=True, help="Bootstrap samples, at most 50,000.")
@click.option("--level", type=Number(), default=0.95, show_default=True, help="Share of refits in an interval.")
@click.option("--compute", type=Amount("FLOP"), help="FLOP to give the optimum at. [default: the runs' largest]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the bootstrap.")
@_column("params", "parameters")
@_column("tokens", "training tokens")
@_column("loss", "losses")
@click.option("--flops", metavar="COLUMN", help="Column of training FLOP, or 6ND. isoflop and envelope read it.")
@_column("run", "run names; envelope takes rows of one name as one curve")
@click.option("--mixture", metavar="COLUMN,COLUMN", help="shukor: columns of each domain's share, 0 to 1.")
@click.option("--where", multiple=True, metavar="CONDITION", help="Rows to use: COLUMN=VALUE, !=, ~ (holds), !~.")
@click.option("--skip-invalid", is_flag=True, help="Leave out rows without a positive number for all that is read.")
@click.option("--against", metavar="OTHER.csv", help="Instead: how much compute a second recipe saves.")
@click.option(
    "--accuracy", metavar="COLUMN", help="How much of a task is solved, whose loss is --loss: both are fitted."
)
@click.option("--chance", type=Number(), default=0.0, show_default=True, help="With --accuracy: what guessing solves.")
@click.option("--top", type=Number(), help="With --accuracy: what the best model solves.  [default: as the runs say]")
@click.option("--best", is_flag=True, help="Of rows with one N and D, as of several learning rates, take the lowest.")
@click.option("--skip-far", is_flag=True, help="Leave out runs far off a first fit: diverged, mislabelled.")
@options.chart
@options.working
@options.output
def fit(runs: str, law: str, fmt: str, chart: str | None, **given: Any) -> None:
    """Fit a law to the training runs in RUNS.csv: one row a run with its parameters, tokens and final loss.

    The optimum is given where the runs can tell one. `all` ranks the forms by their error at runs of larger compute
    than they were fitted to, and gives the optimum over those that the runs cannot tell apart.

    \b
    Examples:
      python -m calc fit docs/example-runs.csv
      python -m calc fit docs/example-runs.csv --law all --refits 0
      python -m calc fit docs/example-runs.csv --law isoflop --compute 1e21 \\
          --json
      python -m calc fit path/to/old.csv --against path/to/new.csv
      python -m calc fit path/to/runs.csv --where "notes!~outlier" \\
          --chart path/to/fit.html
    """
    from calc.charts.saving import check, save

    if chart is not None:
        check(chart)
        if _own_equation(law):
            raise Refused("--chart", "a law that is one of the forms, isoflop or envelope", law)
    workers = _workers(given, law)
    _read_columns(given, law)
    against, column, chance = given.pop("against"), given.pop("accuracy"), given.pop("chance")
    top = given.pop("top")
    for option, value in (("against", against), ("accuracy", column)):
        if value is not None:
            fit_beyond.nothing_else(option)
    if against is not None:
        emit(*fit_beyond.compared(runs, against, given), fmt)
        return
    if column is not None:
        emit(*fit_beyond.solved(runs, column, chance, top, given), fmt)
        return
    progress = Progress()
    try:
        found = _answers(runs, law, {**given, "progress": progress}, workers)
    finally:
        progress.close()
    if fmt != "json":
        for warning in found[0].warnings:
            click.echo(printable(f"note: {warning}"), err=True)
    ranking = fit_tables.ranking(found) if law == "all" else []
    both = average(found) if law == "all" else None
    records = [fit_tables.record(each) for each in found]
    if both is not None:
        records.append({"law": "average", **fit_tables.averaged(both)})
    emit(records, [*ranking, fit_tables.values(found[0]), fit_tables.facts(found[0])], fmt)
    if chart is not None:
        from calc.charts.fits import fit_chart, frontier_chart

        best = found[0]
        save(fit_chart(best) if isinstance(best, Fit) else frontier_chart(best), chart)


def _read_columns(given: dict[str, Any], law: str) -> None:
    """Put the columns that are named in place of their options. Errors: Refused for a mixture of a law without one."""
    columns = {what: given.pop(what) for what in _COLUMNS}
    given["columns"] = {what: column for what, column in columns.items() if column is not None}
    mixture = given.pop("mixture")
    if mixture is not None:
        if law not in mixtures.NAMES:
            raise Refused("--mixture", f"--law {' or '.join(mixtures.NAMES)} beside it", law)
        given["mixture"] = [each.strip() for each in mixture.split(",")]


def _answers(runs: str, law: str, given: dict[str, Any], workers: Workers) -> list[Any]:
    """The fits, the best first."""
    if law in ("isoflop", "envelope"):
        from calc.fitting.envelope import fit_envelope
        from calc.fitting.isoflop import fit_isoflop

        for name, default in (("objective", "huber"), ("delta", 1e-3), ("skip_far", False), ("best", False)):
            if given.pop(name) != default:
                raise Refused(f"--{name.replace('_', '-')}", f"a law with a form of loss, which {law} is not", law)
        return [(fit_isoflop if law == "isoflop" else fit_envelope)(runs, **given)]
    from calc.fitting.fit import fit as fit_form
    from calc.fitting.fit import tournament

    if _own_equation(law):
        return [_published(runs, ALIASES.get(law, law), given)]
    own = {**given, "workers": workers}
    return tournament(runs, **own) if law == "all" else [fit_form(runs, law, **own)]


def _workers(given: dict[str, Any], law: str) -> Workers:
    """Who refits, taken out of what is asked. Errors: Refused beside what is not refitted in chunks."""
    workers: Workers = given.pop("workers")
    alone = given["against"] is not None or given["accuracy"] is not None or law in ("isoflop", "envelope")
    if workers != HERE and (alone or _own_equation(law)):
        raise Refused("--workers, --ray and --keep", "a law that is one of the forms, without --against", law)
    return workers


def _own_equation(law: str) -> bool:
    """Whether a name is that of an equation of its own: of a published law, or one without published constants."""
    if law in TEMPLATES:
        return True
    forms = {name for form in (*FORMS, COMPUTE) for name in (form.name, *form.aliases)}
    return law not in forms and ALIASES.get(law, law) in BY_NAME


def _published(runs: str, law: str, given: dict[str, Any]) -> LawFit:
    if law != "farseer" and given["compute"] is not None:
        raise Refused("--compute", "a law that is one of the forms, or farseer, for whose optimum it is", law)
    for name in ("skip_far", "best"):
        if given.pop(name):
            raise Refused(f"--{name.replace('_', '-')}", "a law that is one of the forms", law)
    if "flops" in given["columns"]:
        given["columns"]["compute"] = given["columns"].pop("flops")
    return fit_law(runs, law, **given)
