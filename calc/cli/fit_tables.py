"""What `fit` prints: constants, facts and the ranking of forms, as tables and as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc.fitting.average import Average, average, behind_first
from calc.fitting.fit import Fit
from calc.fitting.frontier import EQUATION, FrontierFit
from calc.fitting.holdout import HeldOut
from calc.fitting.optimum import CONVENTION
from calc.fitting.published import TEMPLATES, LawFit
from calc.laws.uncertainty import Interval
from calc.output.tables import Table, sentences
from calc.units import si


def record(fit: Fit | FrontierFit | LawFit) -> dict[str, Any]:
    intervals = {name: each and each._asdict() for name, each in fit.intervals.items()}
    record = {
        "law": fit.law,
        "constants": dict(fit.constants),
        "objective": fit.objective,
        "intervals": intervals,
        "optimum": None if not fit.optimum else {"compute": fit.compute, **fit.optimum},
        "warnings": list(fit.warnings),
        "columns": dict(fit.columns),
        "rows": fit.rows,
        "refits": fit.refits,
    }
    if isinstance(fit, LawFit):
        starts = {"tried": fit.starts, "agreeing": fit.agreeing}
        held = None if fit.held_out is None else _held(fit.held_out)
        return {**record, "equation": fit.formula, "source": fit.source, "starts": starts, "held_out": held}
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


def averaged(both: Average) -> dict[str, Any]:
    intervals = {name: each and each._asdict() for name, each in both.intervals.items()}
    return {"forms": list(both.forms), "optimum": {"compute": both.compute, **both.optimum}, "intervals": intervals}


def values(fit: Fit | FrontierFit | LawFit) -> Table:
    optimum: Mapping[str, float] = fit.optimum or {}
    rows = [row(name, value, fit.intervals.get(name)) for name, value in fit.constants.items()]
    rows += [row(f"optimum {name}", value, fit.intervals.get(name)) for name, value in optimum.items()]
    level = next((each.level for each in fit.intervals.values() if each), None)
    columns = ("", "value", f"{100 * level:.3g} % from", "to") if level else ("", "value")
    rows = [row[: len(columns)] for row in rows]
    if isinstance(fit, LawFit):
        return Table(columns, rows, _titled(fit), f"the optimum is that of {fit.compute:.4g} FLOP" if optimum else "")
    note = f"the optimum is that of {fit.compute:.4g} FLOP" if optimum else "these runs cannot tell an optimum"
    return Table(columns, rows, f"{fit.law}: {_equation(fit)}", note)


def _titled(fit: LawFit) -> str:
    """An equation without published constants itself; of a law of `laws` what it takes, and where it is printed."""
    if fit.law in TEMPLATES:
        return f"{fit.law}: {fit.formula}"
    return f"{fit.law}: loss from {', '.join(fit.equation.takes)} ({fit.equation.where})"


def _equation(fit: Fit | FrontierFit | LawFit) -> str:
    if isinstance(fit, LawFit):
        return fit.formula
    return EQUATION if isinstance(fit, FrontierFit) else fit.form.equation


def row(name: str, value: float | None, interval: Interval | None) -> tuple[str, ...]:
    ends = (interval.low, interval.high) if interval else (None, None)
    return (name, *(_number(each) for each in (value, *ends)))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.5g}"


def facts(fit: Fit | FrontierFit | LawFit) -> Table:
    facts = [
        ("rows", f"{fit.rows:,}"),
        ("columns", ", ".join(f"{what} from {column}" for what, column in fit.columns.items() if what != "run")),
        ("refits", f"{fit.refits:,}"),
        ("objective", f"{fit.objective:.10g}"),
    ]
    if isinstance(fit, LawFit):
        facts += [
            ("starts", f"{fit.agreeing} of {fit.starts} agree"),
            *_held_fact(fit.held_out),
            ("source", fit.source),
        ]
    elif isinstance(fit, FrontierFit):
        facts += [("budgets", f"{len(fit.budgets)}"), ("source", fit.source)]
    else:
        facts += [("minimised", fit.aim.meaning), ("starts", f"{fit.agreeing} of {fit.starts} agree")]
        facts += [*_held_fact(fit.held_out), ("source", fit.form.source)]
    return sentences(facts)


def _held_fact(held: HeldOut | None) -> list[tuple[str, str]]:
    if held is None:
        return []
    errors = f"off by {held.rms:.2%}, {held.bias:+.2%} on average"
    parts = f"{held.runs} runs from {held.compute:.3g} FLOP on, in {held.folds} parts"
    return [("held out", f"{parts}, each by a fit to the cheaper ones: {errors}")]


def _held(held: HeldOut) -> dict[str, float]:
    return {name: getattr(held, name) for name in ("runs", "folds", "compute", "rms", "bias")}


def ranking(fits: list[Fit]) -> list[Table]:
    """The forms by their held-out error, and the optimum over those that the runs cannot tell apart."""
    rows = []
    for each, behind in zip(fits, behind_first(fits), strict=True):
        held = each.held_out
        per_param = _number(each.optimum["tokens_per_param"]) if each.optimum else "–"
        errors = (f"{held.rms:.3%}", f"{held.bias:+.3%}") if held else ("–", "–")
        apart = "–" if behind is None else "best" if each is fits[0] else "yes" if behind.distinguished else "no"
        rows.append((each.law, f"{len(each.form.free)}", *errors, apart, per_param))
    held = fits[0].held_out
    columns = ("law", "constants", "held-out error", "on average", "told apart", "tokens/param")
    title = f"forms by their error at {held.runs} runs from {held.compute:.3g} FLOP on" if held else "forms"
    note = f"tokens/param at {si(fits[0].compute, 'FLOP')}; told apart: from the best, at 95 %"
    both = average(fits)
    if both is None:
        return [Table(columns, rows, title, note)]
    level = next((band.level for band in both.intervals.values() if band), None)
    ends = (f"{100 * level:.3g} % from", "to") if level else ()
    values = [row(name, value, both.intervals.get(name))[: 2 + len(ends)] for name, value in both.optimum.items()]
    heading = f"optimum over what the runs cannot tell apart: {', '.join(both.forms)}"
    return [Table(columns, rows, title, note), Table(("", "value", *ends), values, heading)]
