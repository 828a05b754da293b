"""`optimal`: the size a model should have."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from calc.charts.optima import frontier_chart, isoflop_chart
from calc.charts.saving import check, save
from calc.cli import completing, corpora, options
from calc.cli.amounts import Amount, Share
from calc.cli.default_law import chosen
from calc.cli.optimal_plan import OWN, print_together
from calc.cli.optimal_tables import laws_tables, numbers_table, record_of, shape_record, shapes_table, words_table
from calc.cli.options import Length, Tokens
from calc.cli.plan_words import GlobalBatch
from calc.errors import Refused
from calc.laws import DEFAULT, find
from calc.optimum.answer import optimal as best
from calc.optimum.every_law import optimal_all, spread
from calc.optimum.question import Optimum
from calc.optimum.shapes import shapes as near
from calc.output.notes import warn_beyond
from calc.output.progress import Progress
from calc.output.tables import emit
from calc.reading.numbers import Number
from calc.tokens.corpus import Corpus


@click.command(short_help="The compute-optimal size for FLOPs, parameters, tokens, a loss, GPU time or money.")
@click.option("--compute", type=Amount("FLOP"), help='FLOPs of training, or "100 PF-days".')
@click.option("--params", type=Amount("parameters"), help="N, as the law counts it.")
@click.option("--tokens", type=Amount("tokens"), help="D, tokens of training.")
@click.option("--loss", type=Number(above=0), help="Nats a token of the law's own data.")
@click.option("--gpu-days", type=Number(above=0), help="With --gpu and --mfu.")
@click.option("--money", type=Number(above=0), help="With --gpu, --mfu and --price.")
@click.option(
    "--gpu", metavar="GPU", shell_complete=completing.gpus, help="A device of `gpus`; its dense bf16 peak counts."
)
@click.option("--mfu", type=Share(), help="Share of that peak that training reaches: 0.4 or 40%.")
@click.option("--gpus", type=Tokens(), help="How many of them, for the days it takes.")
@click.option("--price", type=Number(above=0), help="Of one GPU for an hour.")
@click.option("--cluster", metavar="NAME", help="With --gpus, --days, --family: size, tokens and plan together.")
@click.option("--days", type=Number(above=0), help="With --cluster: how long its GPUs train.")
@click.option("--stack", metavar="NAME", help="With --cluster: the framework whose plans are searched.")
@click.option("--global-batch", type=GlobalBatch(), help="With --cluster: tokens of a step.  [default: the law's]")
@click.option("--family", metavar="MODEL", help="Scale this model and count its FLOPs exactly, instead of 6 N D.")
@click.option("--seq", type=Length(), help="With --family: tokens in each sequence. [default: 2048]")
@click.option("--shapes", type=Tokens(), help="With --family: how many buildable models near N to show.")
@click.option("--inference-tokens", type=Amount("tokens"), help="Tokens of use to pay for beside training.")
@click.option("--unique-tokens", type=Amount("tokens"), help="Tokens that differ; more of them repeat these.")
@click.option("--experts", type=Number(above=0), help="ludziejewski: all experts over those that a token visits.")
@click.option("--granularity", type=Number(above=0), help="krajewski: how many times smaller than an MLP an expert is.")
@click.option("--sparsity", type=Number(0), help="abnar: share of the experts that a token does not visit.")
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
        _print_all(given, data, chart, fmt)
    else:
        _print_one(law, given, data, shapes, chart, fmt)


def _print_all(given: dict[str, Any], data: Corpus | None, chart: str | None, fmt: str) -> None:
    """What every law answers, and how far apart these are."""
    with closing(Progress()) as progress:
        answers = optimal_all(progress, **given)
    apart = spread(answers)
    emit([record_of(answer, data) | {"spread": apart} for answer in answers], laws_tables(answers), fmt)
    if chart is not None:
        save(frontier_chart([answer for answer in answers if isinstance(answer, Optimum)]), chart)


def _print_one(
    law: str, given: dict[str, Any], data: Corpus | None, shapes: int | None, chart: str | None, fmt: str
) -> None:
    """What one law answers, and what others would; with so many models near it where `shapes` asks for them."""
    with closing(Progress()) as progress:
        answer = best(law, progress, **given)
    built = [] if shapes is None else near(given["family"], answer.params, find(law).counts, shapes)
    others = _others(given)
    tables = [numbers_table(answer, others), *([shapes_table(built)] if built else []), words_table(answer, data)]
    shown = {"shapes": [shape_record(each) for each in built]} if built else {}
    emit([record_of(answer, data) | {"laws": others} | shown], tables, fmt)
    if chart is not None:
        save(isoflop_chart(law, **given), chart)


def _others(given: dict[str, Any]) -> dict[str, dict[str, float]]:
    """How far laws differ on the same question; empty for a loss, whose data differ by law, and of one law alone."""
    if "loss" in given:
        return {}
    every = optimal_all(intervals=False, **{name: value for name, value in given.items() if name != "shapes"})
    return spread(every) if sum(isinstance(each, Optimum) for each in every) > 1 else {}
