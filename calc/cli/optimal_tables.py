"""What `optimal` prints: the answer of a law, of all laws side by side, and models near it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calc.cli import corpora
from calc.cli.left_out import left_out
from calc.laws.base import Law
from calc.laws.uncertainty import Interval
from calc.optimum.every_law import left_out as superseded
from calc.optimum.every_law import spread
from calc.optimum.question import Optimum
from calc.optimum.shapes import Shape
from calc.output.tables import Table, sentences
from calc.tokens.corpus import Corpus
from calc.units import four, si

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


def numbers_table(answer: Optimum, others: dict[str, dict[str, float]]) -> Table:
    """The answer of one law, with its intervals and, of `others`, how far laws differ."""
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
    rows.append(("batch, tokens", si(answer.batch_tokens), "", _from_to([si(each) for each in sorted(batches)])))
    shown = "–" if rate is None else f"{rate:.2e}"
    rows.append(("learning rate", shown, "", _from_to([f"{each:.2e}" for each in sorted(rates)])))
    rows += [(f"compute with {factor:g} x N", f"{cost - 1:+.1%}", "", "") for factor, cost in answer.deviation.items()]
    more = {**answer.routing, **answer.more}
    for name, value in more.items():
        band = answer.interval.get(name)
        shown = si if name in ("plain_params", "vocab_params") else four
        span = _span(name, *band[1:]) if band and name.endswith("compute") else ""
        wide = span or (f"{shown(band.low)} to {shown(band.high)}" if band else "")
        rows.append((_MORE.get(name, name), shown(value), wide, ""))
    columns = ("", "optimum", "95 %" if answer.interval else "", "laws differ")
    chosen = [i for i in range(4) if i < 2 or columns[i]]
    return Table([columns[i] for i in chosen], [[row[i] for i in chosen] for row in rows], f"{answer.law}")


def shapes_table(built: list[Shape]) -> Table:
    """Models near the answer; all parameters stand beside N where the law's N is not all of them."""
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


def shape_record(each: Shape) -> dict[str, Any]:
    """A model near the answer, for JSON."""
    return {**each.sizes, "params": each.params, "total": each.total, "off": each.off}


def words_table(answer: Optimum, data: Corpus | None) -> Table:
    """What the numbers rest on; data: the corpus that was told."""
    rows = [
        *([] if data is None else [corpora.word(data, answer.tokens)]),
        ("convention", answer.convention),
        ("interval", answer.interval_source),
        ("batch and learning rate", answer.hyperparameters),
        *(("warning", warning) for warning in answer.warnings),
    ]
    return sentences(rows)


def laws_tables(answers: list[Optimum | tuple[Law, str]]) -> list[Table]:
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
        Table(columns, rows, "" if varies else f"at {found[0].compute:.4g} FLOP", _apart(answers)),
        *left_out(answer for answer in answers if not isinstance(answer, Optimum)),
    ]


def _apart(answers: list[Optimum | tuple[Law, str]]) -> str:
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


def _from_to(values: Sequence[str]) -> str:
    """The first and the last of what several rules give; nothing where fewer than two give anything."""
    return f"{values[0]} to {values[-1]}" if len(values) > 1 else ""


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


def record_of(answer: Optimum | tuple[Law, str], data: Corpus | None) -> dict[str, Any]:
    """An answer, or why a law gives none, for JSON and CSV."""
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
