"""`loss`: what a scaling law predicts."""

from __future__ import annotations

from typing import Any

import click

from calc.charts.losses import loss_chart
from calc.charts.saving import check, save
from calc.cli import completing, corpora, options
from calc.cli.amounts import Amount
from calc.cli.loss_tasks import solved
from calc.errors import Refused
from calc.laws import DEFAULT, LAWS
from calc.optimum.prediction import Prediction
from calc.optimum.prediction import loss as predict
from calc.output.tables import Table, emit, sentences
from calc.reading.numbers import Number
from calc.tokens.corpus import Corpus


@click.command(short_help="The loss that a scaling law predicts for a model and its tokens.")
@click.option("--params", type=Amount("parameters"), help="N, as the law counts it (`laws NAME`).")
@click.option("--tokens", type=Amount("tokens"), help="D, tokens of training.")
@click.option(
    "--law",
    shell_complete=completing.laws,
    default=DEFAULT,
    show_default=True,
    help="A law of `laws`, or all that take what is given.",
)
@click.option("--unique-tokens", type=Amount("tokens"), help="muennighoff: how many of the tokens differ.")
@corpora.options
@click.option("--experts", type=Number(above=0), help="clark, ludziejewski: experts over those that a token visits.")
@click.option("--granularity", type=Number(above=0), help="krajewski: how many times smaller than an MLP an expert is.")
@click.option("--sparsity", type=Number(0), help="abnar: share of the experts that a token does not visit.")
@click.option("--bits", type=Number(above=0), help="kumar: bits of weights, activations and cache in training.")
@click.option("--bits-post", type=Number(above=0), help="kumar: bits of weights that are rounded after training.")
@click.option("--task", metavar="NAME", help="Share of a benchmark solved, by OLMo's ladder; or all of them.")
@options.chart
@options.output
def loss(law: str, fmt: str, chart: str | None, bits: float | None, task: str | None, **words: Any) -> None:
    """Predict the loss, in nats a token, of N parameters trained on D tokens.

    Each law speaks of its own data and tokenizer: losses of different laws are not to be compared. A --corpus is
    trained on once unless --tokens says more; only muennighoff knows what repeated tokens are worth.

    \b
    Examples:
      python -m calc loss --params 70e9 --tokens 1.4T
      python -m calc loss --params 7B --tokens 2T --law all
      python -m calc loss --params 1B --corpus "20e9 words" \\
          --tokens-per-word 1.3 --tokens 100e9 --law muennighoff
      python -m calc loss --params 1.3e9 --experts 64 --law clark
      python -m calc loss --params 7B --tokens 4T --task all
      python -m calc loss --params 70e9 --tokens 1.4T \\
          --chart path/to/contours.svg
    """
    if task is not None:
        emit(*solved(task, law, chart, {**words, "bits": bits}), fmt)
        return
    if chart is not None:
        check(chart)
        if law == "all":
            raise Refused("--chart", "one law, whose lines of equal loss it shows", law)
    data = corpora.read(words)
    given = {name: value for name, value in words.items() if value is not None}
    if data is not None:
        given.setdefault("tokens", data.tokens)
        given |= {"unique_tokens": data.tokens} if law == "muennighoff" else {}
    if bits is not None:
        given |= {"bits_weights": bits, "bits_activations": bits, "bits_cache": bits}
    drawn = None if chart is None else loss_chart(law, **given)
    answers = _all(given) if law == "all" else [predict(law, **given)]
    rows = [(a.law, f"{a.loss:.4f}", _band(a), "yes" if a.in_range else "no") for a in answers]
    what = ", ".join(f"{name} {value:.4g}" for name, value in given.items())
    tables = [Table(("law", "loss", "95 %", "in range"), rows, f"loss in nats a token for {what}")]
    if len(answers) == 1:
        tables.append(sentences(_words(answers[0])))
    records = [_record(answer) for answer in answers]
    if data is not None:
        repeats = _repeats(data, law, given["tokens"])
        warned = [("warning", warning) for warning in repeats]
        tables.append(sentences([corpora.word(data, given["tokens"]), *warned]))
        more = corpora.record(data, given["tokens"])
        records = [each | more | {"warnings": [*each["warnings"], *repeats]} for each in records]
    emit(records, tables, fmt)
    if chart is not None and drawn is not None:
        save(drawn, chart)


def _all(given: dict[str, float]) -> list[Prediction]:
    """Of every law that takes exactly what is given, variants left out."""
    takers = [law for law in LAWS if law.variant_of is None]
    names = [law.name for law in takers if any(e.gives == "loss" and {*e.takes} == {*given} for e in law.equations)]
    if not names:
        raise Refused(
            "--law all", "inputs that some law takes, such as --params and --tokens", " and ".join(given) or "none"
        )
    return [predict(name, **given) for name in names]


def _repeats(data: Corpus, law: str, tokens: float) -> list[str]:
    """What to say where a law takes repeated tokens for fresh ones."""
    if law == "muennighoff" or data.epochs(tokens) <= 1:
        return []
    return ["repeated tokens count as fresh ones here; --law muennighoff says what they are worth"]


def _band(answer: Prediction) -> str:
    band = answer.interval.get("loss")
    return f"{band.low:.4f} to {band.high:.4f}" if band else "–"


def _words(answer: Prediction) -> list[tuple[str, str]]:
    return [
        ("convention", answer.convention),
        ("interval", answer.interval_source),
        *(("warning", warning) for warning in answer.warnings),
    ]


def _record(answer: Prediction) -> dict[str, Any]:
    return {
        "law": answer.law,
        "loss": answer.loss,
        **answer.inputs,
        "interval": {name: band._asdict() for name, band in answer.interval.items()},
        "interval_source": answer.interval_source,
        "convention": answer.convention,
        "in_range": answer.in_range,
        "warnings": list(answer.warnings),
    }
