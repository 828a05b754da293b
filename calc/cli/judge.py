"""`judge`: a model and its tokens against the optimum of a scaling law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from calc.cli import completing, options
from calc.cli.amounts import Amount
from calc.cli.default_law import chosen
from calc.cli.left_out import left_out
from calc.cli.options import Length
from calc.errors import Refused
from calc.laws import DEFAULT
from calc.laws.base import Law
from calc.optimum.judgement import Judgement, differ, differing, judge_all, verdict
from calc.optimum.judgement import judge as weigh
from calc.output.notes import warn_beyond
from calc.output.tables import Table, emit, sentences
from calc.spec import ModelSpec
from calc.units import si


@click.command(short_help="How far a model and its tokens are from a law's optimum, and what that costs and saves.")
@options.model
@click.option("--tokens", type=Amount("tokens"), required=True, help="D, tokens of training.")
@click.option(
    "--law",
    shell_complete=completing.laws,
    default=DEFAULT,
    show_default=True,
    help="A law of `laws` that says what is optimal, or all; of experts the nearest that knows them.",
)
@click.option("--seq", type=Length(), help="Count FLOPs exactly, in sequences of so many tokens. [default: 6 N D]")
@options.output
def judge(model: ModelSpec, tokens: float, law: str, seq: int | None, fmt: str) -> None:
    """Compare MODEL on D tokens with the compute-optimal model of the same FLOPs, and with that of the same loss.

    \b
    Examples:
      python -m calc judge llama-3-8b --tokens 15T
      python -m calc judge llama-3-8b --tokens 15T --seq 8192
      python -m calc judge llama-3-8b --tokens 15T --law all
    """
    if seq is not None:
        warn_beyond(model, seq, "--seq")
    law = chosen(law, model, {})
    if law == "all":
        if seq is not None:
            raise Refused("--seq", "one --law beside it", seq)
        every = judge_all(model, tokens)
        emit([_record(each) for each in every], _side_by_side(every), fmt)
        return
    found = weigh(model, tokens, law, seq)
    apart = differ(judge_all(model, tokens)) if seq is None else {}
    record = _record(found) | {"laws": {name: [*map(_finite, ends)] for name, ends in apart.items()}}
    emit([record], [_table(found), _words(found, apart)], fmt)


def _table(found: Judgement) -> Table:
    rows = [
        ("parameters", si(found.params), si(found.best_params), _size(found.same_loss_params)),
        ("tokens", si(found.tokens), si(found.best_tokens), _size(found.same_loss_tokens)),
        ("compute, FLOP", f"{found.compute:.3e}", f"{found.compute:.3e}", _power(found.same_loss_compute)),
        ("loss", _loss(found.loss), _loss(found.best_loss), _loss(found.loss)),
    ]
    columns = ("", "this model", "optimum, same compute", "optimum, same loss")
    return Table(columns, rows, f"{found.model} on {si(found.tokens)} tokens by {found.law}")


def _words(found: Judgement, apart: Mapping[str, tuple[float, float]]) -> Table:
    rows = [*verdict(found), *differing(apart), ("convention", found.convention)]
    if found.interval:
        rows.append(("interval", found.interval_source))
    return sentences(rows + [("warning", warning) for warning in found.warnings])


def _side_by_side(found: list[Judgement | tuple[Law, str]]) -> list[Table]:
    """Every law's judgement, and below them why some have none."""
    rows = [
        (
            each.law,
            si(each.params),
            f"{each.past:.3g}",
            si(each.best_params),
            si(each.best_tokens),
            _loss(each.best_loss),
            _loss(each.loss),
            "yes" if each.in_range else "no",
        )
        for each in found
        if isinstance(each, Judgement)
    ]
    columns = ("law", "N", "D / law's", "best N", "best D", "best loss", "loss", "in range")
    note = "D / law's: over the tokens that the law gives this size; best: of the same 6 N D"
    judged = [each for each in found if isinstance(each, Judgement)]
    words = [
        (each.law, "; ".join(f"{about} {verdict_text}" for about, verdict_text in verdict(each)))
        for each in judged
        if each.interval
    ]
    bands = [sentences(words, ("95 %", "by the sampling of the law's own data"))] if words else []
    apart = [sentences(differing(differ(found)))] if len(judged) > 1 else []
    return [
        Table(columns, rows, "", note),
        *apart,
        *bands,
        *left_out(each for each in found if isinstance(each, tuple)),
    ]


def _size(value: float | None) -> str:
    return "–" if value is None else si(value)


def _power(value: float | None) -> str:
    return "–" if value is None else f"{value:.3e}"


def _loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _record(found: Judgement | tuple[Law, str]) -> dict[str, Any]:
    if not isinstance(found, Judgement):
        return {"law": found[0].name, "reason": found[1]}
    bands = {
        name: {end: _finite(value) for end, value in band._asdict().items()} for name, band in found.interval.items()
    }
    more = {"tokens_per_param": found.tokens_per_param, "warnings": list(found.warnings), "interval": bands}
    return asdict(found) | more
