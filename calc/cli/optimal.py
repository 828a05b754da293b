"""`optimal`: the size a model should have."""

from __future__ import annotations

import math
from typing import Any

import click

from calc.charts.optima import frontier_chart, isoflop_chart
from calc.charts.saving import check, save
from calc.cli import completing, corpora, options
from calc.cli.amounts import Amount, Positive, Share
from calc.cli.default_law import chosen
from calc.cli.left_out import left_out
from calc.cli.optimal_plan import OWN, print_together
from calc.cli.options import Length, Tokens
from calc.cli.plan_words import GlobalBatch
from calc.errors import Refused
from calc.laws import DEFAULT, find
from calc.laws.base import Law
from calc.laws.uncertainty import Interval
from calc.optimum.answer import optimal as best
from calc.optimum.every_law import left_out as superseded
from calc.optimum.every_law import optimal_all, spread
from calc.optimum.question import Optimum
from calc.optimum.shapes import Shape
from calc.optimum.shapes import shapes as near
from calc.output.notes import warn_beyond
from calc.output.tables import Table, emit, sentences
from calc.tokens.corpus import Corpus
from calc.units import si

_MORE = {
    "gpu_days": "GPU-days",
    "vocab_params": "vocabulary's N (tao)",
    "plain_compute": "compute without use",
    "plain_params": "parameters without use",
    "total_compute": "FLOP with use",
    "cost_ratio": "FLOP / the optimum's",
    "tokens_ratio": "tokens / the optimum's",
}
_NUMBERS = ("compute", "params", "tokens", "loss", "tokens_per_param")


@click.command(short_help="The compute-optimal size for FLOPs, parameters, tokens, a loss, GPU time or money.")
@click.option("--compute", type=Amount("FLOP"), help='FLOPs of training, or "100 PF-days".')
@click.option("--params", type=Amount("parameters"), help="N, as the law counts it.")
@click.option("--tokens", type=Amount("tokens"), help="D, tokens of training.")
@click.option("--loss", type=Positive(), help="Nats a token of the law's own data.")
@click.option("--gpu-days", type=Positive(), help="With --gpu and --mfu.")
@click.option("--money", type=Positive(), help="With --gpu, --mfu and --price.")
@click.option(
    "--gpu", metavar="GPU", shell_complete=completing.gpus, help="A device of `gpus`; its dense bf16 peak counts."
)
@click.option("--mfu", type=Share(), help="Share of that peak that training reaches: 0.4 or 40%.")
@click.option("--gpus", type=Tokens(), help="How many of them, for the days it takes.")
@click.option("--price", type=Positive(), help="Of one GPU for an hour.")
@click.option("--cluster", metavar="NAME", help="With --gpus, --days, --family: size, tokens and plan together.")
@click.option("--days", type=Positive(), help="With --cluster: how long its GPUs train.")
@click.option("--stack", metavar="NAME", help="With --cluster: the framework whose plans are searched.")
@click.option("--global-batch", type=GlobalBatch(), help="With --cluster: tokens of a step.  [default: the law's]")
@click.option("--family", metavar="MODEL", help="Scale this model and count its FLOPs exactly, instead of 6 N D.")
@click.option("--seq", type=Length(), help="With --family: tokens in each sequence. [default: 2048]")
@click.option("--shapes", type=Tokens(), help="With --family: how many buildable models near N to show.")
@click.option("--inference-tokens", type=Amount("tokens"), help="Tokens of use to pay for beside training.")
@click.option("--unique-tokens", type=Amount("tokens"), help="Tokens that differ; more of them repeat these.")
@click.option("--experts", type=Positive(), help="ludziejewski: all experts over those that a token visits.")
@click.option("--granularity", type=Positive(), help="krajewski: how many times smaller than an MLP an expert is.")
@click.option("--sparsity", type=Positive(zero=True), help="abnar: share of the experts that a token does not visit.")
@corpora.options
@click.option(
    "--law",
    shell_complete=completing.laws,
    default=DEFAULT,
    show_default=True,
    help="A law of `laws`, or all side by side; of experts the nearest that knows them.",
)
@options.chart
@options.output
def optimal(law: str, family: str | None, shapes: int | None, chart: str | None, fmt: str, **words: Any) -> None:
    """Find the parameters and tokens that a scaling law asks for, given exactly one of compute, params, tokens, loss,
    GPU-days and money.

    \b
    Examples:
      python -m calc optimal --compute 5.76e23
      python -m calc optimal --compute 5.76e23 --law all
      python -m calc optimal --gpu-days 5000 --gpu h100-sxm --mfu 0.4 \\
          --gpus 512 --price 2
      python -m calc optimal --compute 1e22 --family llama-3-8b --seq 8192 \\
          --shapes 3
      python -m calc optimal --params 13e9 --inference-tokens 2T \\
          --law hoffmann-3
      python -m calc optimal --compute 1e22 --unique-tokens 25e9
      python -m calc optimal --compute 1e22 --experts 8 --law ludziejewski
      python -m calc optimal --compute 1e22 --corpus "300 GB" \\
          --bytes-per-token 4.2
      python -m calc optimal --compute 1e22 --chart path/to/isoflop.html
      python -m calc optimal --cluster dgx-h100 --gpus 8 --days 2 \\
          --family gpt2 --seq 1024 --stack deepspeed
    """
    if chart is not None:
        check(chart)
    data = corpora.read(words)
    given = {name: value for name, value in words.items() if value is not None}
    if data is not None:
        given["unique_tokens"] = data.tokens
    if family is not None:
        given["family"] = options.read_model(family)
        warn_beyond(given["family"], given.get("seq", 0), "--seq")
    law = chosen(law, given.get("family"), given)
    if shapes is not None and (family is None or law == "all"):
        raise Refused("--shapes", "--family and one --law beside it", shapes)
    if words["cluster"] is not None:
        print_together(law, shapes, fmt, given)
        return
    for name in OWN:
        if given.get(name) is not None:
            raise Refused(f"--{name.replace('_', '-')}", "--cluster beside it", given[name])
    if law == "all":
        answers = optimal_all(**given)
        apart = spread(answers)
        emit([_record(answer, data) | {"spread": apart} for answer in answers], _side_by_side(answers), fmt)
        if chart is not None:
            save(frontier_chart([answer for answer in answers if isinstance(answer, Optimum)]), chart)
    else:
        answer = best(law, **given)
        built = [] if shapes is None else near(given["family"], answer.params, find(law).counts, shapes)
        others = _others(given)
        tables = [_numbers(answer, others), *([_shapes(built)] if built else []), _words(answer, data)]
        shown = {"shapes": [_shape(each) for each in built]} if built else {}
        emit([_record(answer, data) | {"laws": others} | shown], tables, fmt)
        if chart is not None:
            save(isoflop_chart(law, **given), chart)


def _others(given: dict[str, Any]) -> dict[str, dict[str, float]]:
    """How far laws differ on the same question; empty for a loss, whose data differ by law, and of one law alone."""
    if "loss" in given:
        return {}
    every = optimal_all(**{name: value for name, value in given.items() if name != "shapes"})
    return spread(every) if sum(isinstance(each, Optimum) for each in every) > 1 else {}


def _numbers(answer: Optimum, others: dict[str, dict[str, float]]) -> Table:
    names = {"compute": "compute, FLOP", "params": "parameters", "tokens_per_param": "tokens a parameter"}
    rows = []
    for name in _NUMBERS:
        band = answer.interval.get(name)
        wide = _ends(name, band) if band else ""
        laws = others.get(name)
        differ = _span(name, laws["low"], laws["high"]) if laws and laws["ratio"] > 1 else ""
        rows.append((names.get(name, name), _number(name, getattr(answer, name)), wide, differ))
    rate = answer.learning_rate
    batches = [batch for batch, _ in answer.rules.values() if batch is not None]
    rates = [rate for _, rate in answer.rules.values()]
    rows.append(("batch, tokens", si(answer.batch_tokens), "", f"{si(min(batches))} to {si(max(batches))}"))
    shown = "–" if rate is None else f"{rate:.2e}"
    rows.append(("learning rate", shown, "", f"{min(rates):.2e} to {max(rates):.2e}"))
    rows += [(f"compute with {factor:g} x N", f"{cost - 1:+.1%}", "", "") for factor, cost in answer.deviation.items()]
    more = {**answer.routing, **answer.more}
    for name, value in more.items():
        band = answer.interval.get(name)
        shown = si if name in ("plain_params", "vocab_params") else "{:,.4g}".format
        span = _span(name, *band[1:]) if band and name.endswith("compute") else ""
        wide = span or (f"{shown(band.low)} to {shown(band.high)}" if band else "")
        rows.append((_MORE.get(name, name), shown(value), wide, ""))
    columns = ("", "optimum", "95 %" if answer.interval else "", "laws differ")
    chosen = [i for i in range(4) if i < 2 or columns[i]]
    return Table([columns[i] for i in chosen], [[row[i] for i in chosen] for row in rows], f"{answer.law}")


def _shapes(built: list[Shape]) -> Table:
    """All parameters stand beside N where the law's N is not all of them."""
    names = list(built[0].sizes)
    more = any(each.total != each.params for each in built)
    rows = [
        (
            f"{each.params:,}",
            f"{each.off:+.2%}",
            *([si(each.total)] if more else []),
            *(f"{each.sizes[name]}" for name in names),
        )
        for each in built
    ]
    return Table(("N", "off by", *(["in all"] if more else []), *names), rows, "models of the family near it")


def _shape(each: Shape) -> dict[str, Any]:
    return {**each.sizes, "params": each.params, "total": each.total, "off": each.off}


def _words(answer: Optimum, data: Corpus | None) -> Table:
    rows = [
        *([] if data is None else [corpora.word(data, answer.tokens)]),
        ("convention", answer.convention),
        ("interval", answer.interval_source),
        ("batch and learning rate", answer.hyperparameters),
        *(("warning", warning) for warning in answer.warnings),
    ]
    return sentences(rows)


def _side_by_side(answers: list[Optimum | tuple[Law, str]]) -> list[Table]:
    """Every law's answer, and below them why some give none; of compute one column, where it is not the question."""
    found = [answer for answer in answers if isinstance(answer, Optimum)]
    varies = len({answer.compute for answer in found}) > 1
    columns = ["law", "N", "95 % of N", "D", "loss", "D/N", *(["FLOP"] if varies else []), "in range"]
    rows = []
    for each in found:
        band = each.interval.get("params")
        row = [each.law, si(each.params), _ends("params", band) if band else "", si(each.tokens)]
        row += [_number("loss", each.loss), _number("tokens_per_param", each.tokens_per_param)]
        rows.append([*row, *([f"{each.compute:.2e}"] if varies else []), "yes" if each.in_range else "no"])
    return [
        Table(columns, rows, "" if varies else f"at {found[0].compute:.4g} FLOP", apart(answers)),
        *left_out(answer for answer in answers if not isinstance(answer, Optimum)),
    ]


def apart(answers: list[Optimum | tuple[Law, str]]) -> str:
    """How far laws differ, in words."""
    counts = "N counts, and loss speaks of, what `laws NAME` says"
    if sum(isinstance(answer, Optimum) for answer in answers) == 1:
        return counts
    ratios = {name: each["ratio"] for name, each in spread(answers).items() if name in ("params", "compute")}
    name = max(ratios, key=lambda each: ratios[each])
    what = {"params": "N lies", "compute": "compute lies"}[name]
    old = superseded(answers)
    without = f" without {' and '.join(old)} (superseded)" if old else ""
    return f"{what} {ratios[name]:.3g}-fold apart{without};\n{counts}"


def _ends(name: str, band: Interval) -> str:
    return _span(name, band.low, band.high)


def _span(name: str, low: float, high: float) -> str:
    if name.endswith("compute") and not math.isinf(high):
        return f"{low:.2e} to {high:.2e}"
    return f"{_number(name, low)} to {_number(name, high)}"


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if math.isinf(value):
        return "unbounded"
    if name == "loss":
        return f"{value:.4f}"
    if name == "compute":
        return f"{value:.3e}"
    return f"{value:.3g}" if name == "tokens_per_param" else si(value)


def _record(answer: Optimum | tuple[Law, str], data: Corpus | None) -> dict[str, Any]:
    if not isinstance(answer, Optimum):
        return {"law": answer[0].name, **dict.fromkeys(_NUMBERS), "reason": answer[1]}
    bands = {
        name: {"level": band.level, "low": _finite(band.low), "high": _finite(band.high)}
        for name, band in answer.interval.items()
    }
    return {
        "law": answer.law,
        **{name: getattr(answer, name) for name in _NUMBERS},
        "interval": bands,
        "interval_source": answer.interval_source,
        "convention": answer.convention,
        "in_range": answer.in_range,
        "warnings": list(answer.warnings),
        "batch_tokens": answer.batch_tokens,
        "learning_rate": answer.learning_rate,
        "hyperparameters": answer.hyperparameters,
        "rules": {name: {"batch_tokens": b, "learning_rate": rate} for name, (b, rate) in answer.rules.items()},
        "deviation": {f"{factor:g}": cost for factor, cost in answer.deviation.items()},
        **answer.more,
        **answer.routing,
        **({} if data is None else corpora.record(data, answer.tokens)),
    }


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value
