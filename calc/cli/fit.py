"""`fit`: the constants of a scaling law from one's own runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from calc.cli import options
from calc.cli.amounts import Amount, Positive
from calc.cli.output import Table, emit
from calc.cli.progress import Progress
from calc.errors import Refused, printable
from calc.fitting.average import Average, average, standing
from calc.fitting.fit import Fit
from calc.fitting.forms import COMPUTE, FORMS
from calc.fitting.frontier import EQUATION, FrontierFit
from calc.fitting.holdout import HeldOut
from calc.fitting.optimum import CONVENTION
from calc.fitting.published import LawFit, fit_law
from calc.laws import ALIASES, BY_NAME
from calc.laws.uncertainty import Interval
from calc.units import si

_COLUMNS = ("params", "tokens", "loss", "flops", "run")


def _column(what: str, of: str) -> Any:
    return click.option(f"--{what}", metavar="COLUMN", help=f"Column of {of}. [default: found by its name]")


@click.command(short_help="The constants of a scaling law from your own runs, with intervals.")
@click.argument("runs", metavar="RUNS.csv")
@click.option(
    "--law",
    default="chinchilla",
    show_default=True,
    help="chinchilla, equal-exponents, kaplan, free-k, or all of them, ranked; compute on a ladder of one number of "
    "tokens a parameter; isoflop or envelope without a form; or a law of `laws` that predicts a loss.",
)
@click.option(
    "--objective",
    type=click.Choice(["huber", "lad", "squares"]),
    default="huber",
    show_default=True,
    help="What is minimised over ln predicted - ln observed.",
)
@click.option("--delta", type=Positive(), default=1e-3, show_default=True, help="Where Huber's loss turns from square.")
@click.option("--refits", type=click.IntRange(0), default=4000, show_default=True, help="Bootstrap samples.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Share of refits in an interval.")
@click.option("--compute", type=Amount("FLOP"), help="FLOP to give the optimum at. [default: the runs' largest]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the bootstrap.")
@_column("params", "parameters")
@_column("tokens", "training tokens")
@_column("loss", "losses")
@click.option("--flops", metavar="COLUMN", help="Column of training FLOP, or 6ND. isoflop and envelope read it.")
@_column("run", "run names; envelope takes rows of one name as one curve")
@click.option("--where", multiple=True, metavar="CONDITION", help="Rows to use: COLUMN=VALUE, !=, ~ (holds), !~.")
@click.option("--skip-invalid", is_flag=True, help="Leave out rows without a positive number for all that is read.")
@click.option("--against", metavar="OTHER.csv", help="Instead: how much compute a second recipe saves.")
@click.option("--best", is_flag=True, help="Of rows with one N and D, as of several learning rates, take the lowest.")
@click.option("--skip-far", is_flag=True, help="Leave out runs far off a first fit: diverged, mislabelled.")
@options.chart
@options.output
def fit(runs: str, law: str, fmt: str, chart: str | None, against: str | None, **asked: Any) -> None:
    """Fit a law to the training runs in RUNS.csv: one row a run with its parameters, tokens and final loss.

    The optimum is given where the runs can tell one. `all` ranks the forms by their error at runs of larger compute
    than they were fitted to, and gives the optimum over those that the runs cannot tell apart.

    \b
    Examples:
      python -m calc fit docs/example-runs.csv
      python -m calc fit docs/example-runs.csv --law all --refits 0
      python -m calc fit docs/example-runs.csv --law isoflop --compute 1e21 --json
      python -m calc fit path/to/old.csv --against path/to/new.csv
      python -m calc fit path/to/runs.csv --where "notes!~outlier" --chart path/to/fit.html
    """
    from calc import charts

    if chart is not None:
        charts.check(chart)
        if _own_equation(law):
            raise Refused("--chart", "a law that is one of the forms, isoflop or envelope", law)
    columns = {what: asked.pop(what) for what in _COLUMNS}
    asked["columns"] = {what: column for what, column in columns.items() if column is not None}
    if against is not None:
        emit(*_compared(runs, against, asked), fmt)
        return
    progress = Progress()
    try:
        found = _answers(runs, law, {**asked, "progress": progress})
    finally:
        progress.close()
    if fmt != "json":
        for warning in found[0].warnings:
            click.echo(printable(f"note: {warning}"), err=True)
    ranking = _ranking(found) if law == "all" else []
    both = average(found) if law == "all" else None
    records = [_record(each) for each in found]
    if both is not None:
        records.append({"law": "average", **_averaged(both)})
    emit(records, [*ranking, _values(found[0]), _facts(found[0])], fmt)
    if chart is not None:
        from calc.fitting.charts import fit_chart, frontier_chart

        best = found[0]
        charts.save(fit_chart(best) if isinstance(best, Fit) else frontier_chart(best), chart)


def _compared(first: str, second: str, asked: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Table]]:
    """How much compute the second recipe saves against the first."""
    from calc.fitting.recipes import compare
    from calc.fitting.runs import read

    tables = [read(path, asked["columns"], asked["where"], asked["skip_invalid"]) for path in (first, second)]
    found = compare(*tables, refits=asked["refits"] or 1, level=asked["level"], seed=asked["seed"])
    rows = [
        _row(f"at {compute:.3g} FLOP", value, band)
        for compute, value, band in zip(found.compute, found.multiplier, found.intervals, strict=True)
    ]
    rows.append(_row("growth, tenfold", found.growth, found.growth_interval))
    columns = ("", "value", f"{100 * asked['level']:.3g} % from", "to")
    title = f"FLOP of {first} over those of {second} for the same loss"
    note = f"above 1 the second saves compute: {found.grows}; growth is that of its logarithm"
    constants = [_row(name, value, None)[:2] for name, value in found.constants.items()]
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


def _answers(runs: str, law: str, asked: dict[str, Any]) -> list[Any]:
    """The fits, the best first."""
    if law in ("isoflop", "envelope"):
        from calc.fitting.envelope import fit_envelope
        from calc.fitting.isoflop import fit_isoflop

        for name, default in (("objective", "huber"), ("delta", 1e-3), ("skip_far", False), ("best", False)):
            if asked.pop(name) != default:
                raise Refused(f"--{name.replace('_', '-')}", f"a law with a form of loss, which {law} is not", law)
        return [(fit_isoflop if law == "isoflop" else fit_envelope)(runs, **asked)]
    from calc.fitting.fit import fit as fit_form
    from calc.fitting.fit import tournament

    if _own_equation(law):
        return [_published(runs, ALIASES.get(law, law), asked)]
    return tournament(runs, **asked) if law == "all" else [fit_form(runs, law, **asked)]


def _own_equation(law: str) -> bool:
    """Whether a name is that of a published law of none of the forms."""
    forms = {name for form in (*FORMS, COMPUTE) for name in (form.name, *form.aliases)}
    return law not in forms and ALIASES.get(law, law) in BY_NAME


def _published(runs: str, law: str, asked: dict[str, Any]) -> LawFit:
    if asked.pop("compute") is not None:
        raise Refused("--compute", "a law that is one of the forms, for whose optimum it is", law)
    for name in ("skip_far", "best"):
        if asked.pop(name):
            raise Refused(f"--{name.replace('_', '-')}", "a law that is one of the forms", law)
    if "flops" in asked["columns"]:
        asked["columns"]["compute"] = asked["columns"].pop("flops")
    return fit_law(runs, law, **asked)


def _record(fit: Fit | FrontierFit | LawFit) -> dict[str, Any]:
    intervals = {name: each and each._asdict() for name, each in fit.intervals.items()}
    record = {
        "law": fit.law,
        "constants": dict(fit.constants),
        "objective": fit.objective,
        "intervals": intervals,
        "optimum": None if isinstance(fit, LawFit) or not fit.optimum else {"compute": fit.compute, **fit.optimum},
        "warnings": list(fit.warnings),
        "columns": dict(fit.columns),
        "rows": fit.rows,
        "refits": fit.refits,
    }
    if isinstance(fit, LawFit):
        starts = {"tried": fit.starts, "agreeing": fit.agreeing}
        return {**record, "equation": _equation(fit), "source": fit.source, "starts": starts}
    if isinstance(fit, FrontierFit):
        budgets = [
            {name: getattr(each, name) for name in ("compute", "params", "tokens", "loss")} for each in fit.budgets
        ]
        return {**record, "equation": EQUATION, "source": fit.source, "budgets": budgets}
    return {
        **record,
        "equation": fit.form.equation,
        "source": fit.form.source,
        "minimised": fit.aim.meaning,
        "convention": CONVENTION,
        "starts": {"tried": fit.starts, "agreeing": fit.agreeing},
        "held_out": None if fit.held_out is None else _held(fit.held_out),
    }


def _averaged(both: Average) -> dict[str, Any]:
    intervals = {name: each and each._asdict() for name, each in both.intervals.items()}
    return {"forms": list(both.forms), "optimum": {"compute": both.compute, **both.optimum}, "intervals": intervals}


def _values(fit: Fit | FrontierFit | LawFit) -> Table:
    optimum: Mapping[str, float] = fit.optimum or {}
    rows = [_row(name, value, fit.intervals.get(name)) for name, value in fit.constants.items()]
    rows += [_row(f"optimum {name}", value, fit.intervals.get(name)) for name, value in optimum.items()]
    level = next((each.level for each in fit.intervals.values() if each), None)
    columns = ("", "value", f"{100 * level:.3g} % from", "to") if level else ("", "value")
    rows = [row[: len(columns)] for row in rows]
    if isinstance(fit, LawFit):
        return Table(columns, rows, f"{fit.law}: loss from {', '.join(fit.equation.takes)} ({fit.equation.where})")
    note = f"the optimum is that of {fit.compute:.4g} FLOP" if optimum else "these runs cannot tell an optimum"
    return Table(columns, rows, f"{fit.law}: {_equation(fit)}", note)


def _equation(fit: Fit | FrontierFit | LawFit) -> str:
    if isinstance(fit, LawFit):
        return str(BY_NAME[fit.law].expression(fit.equation))
    return EQUATION if isinstance(fit, FrontierFit) else fit.form.equation


def _row(name: str, value: float | None, interval: Interval | None) -> tuple[str, ...]:
    ends = (interval.low, interval.high) if interval else (None, None)
    return (name, *(_number(each) for each in (value, *ends)))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.5g}"


def _facts(fit: Fit | FrontierFit | LawFit) -> Table:
    facts = [
        ("rows", f"{fit.rows:,}"),
        ("columns", ", ".join(f"{what} from {column}" for what, column in fit.columns.items() if what != "run")),
        ("refits", f"{fit.refits:,}"),
        ("objective", f"{fit.objective:.10g}"),
    ]
    if isinstance(fit, LawFit):
        facts += [("starts", f"{fit.agreeing} of {fit.starts} agree"), ("source", fit.source)]
    elif isinstance(fit, FrontierFit):
        facts += [("budgets", f"{len(fit.budgets)}"), ("source", fit.source)]
    else:
        facts += [("minimised", fit.aim.meaning), ("starts", f"{fit.agreeing} of {fit.starts} agree")]
        if held := fit.held_out:
            errors = f"off by {held.rms:.2%}, {held.bias:+.2%} on average"
            parts = f"{held.runs} runs from {held.compute:.3g} FLOP on, in {held.folds} parts"
            facts.append(("held out", f"{parts}, each by a fit to the cheaper ones: {errors}"))
        facts.append(("source", fit.form.source))
    return Table(("", ""), facts)


def _held(held: HeldOut) -> dict[str, float]:
    return {name: getattr(held, name) for name in ("runs", "folds", "compute", "rms", "bias")}


def _ranking(fits: list[Fit]) -> list[Table]:
    """The forms by their held-out error, and the optimum over those that the runs cannot tell apart."""
    rows = []
    for each, behind in zip(fits, standing(fits), strict=True):
        held = each.held_out
        per_param = _number(each.optimum["tokens_per_param"]) if each.optimum else "–"
        errors = (f"{held.rms:.3%}", f"{held.bias:+.3%}") if held else ("–", "–")
        told = "–" if behind is None else "best" if each is fits[0] else "yes" if behind.told else "no"
        rows.append((each.law, f"{len(each.form.free)}", *errors, told, per_param))
    held = fits[0].held_out
    columns = ("law", "constants", "held-out error", "on average", "told apart", "tokens/param")
    title = f"forms by their error at {held.runs} runs from {held.compute:.3g} FLOP on" if held else "forms"
    note = f"tokens/param at {si(fits[0].compute, 'FLOP')}; told apart: from the best, at 95 %"
    both = average(fits)
    if both is None:
        return [Table(columns, rows, title, note)]
    level = next((band.level for band in both.intervals.values() if band), None)
    ends = (f"{100 * level:.3g} % from", "to") if level else ()
    values = [_row(name, value, both.intervals.get(name))[: 2 + len(ends)] for name, value in both.optimum.items()]
    said = f"optimum over what the runs cannot tell apart: {', '.join(both.forms)}"
    return [Table(columns, rows, title, note), Table(("", "value", *ends), values, said)]
