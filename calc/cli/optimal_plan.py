"""`optimal --cluster`: the model, its tokens and its plan together."""

from __future__ import annotations

from typing import Any

from calc.cli import plan_words
from calc.cli.plan_tables import UNTIL_THEN, end_as
from calc.errors import Refused
from calc.output.progress import Progress
from calc.output.tables import Table, emit
from calc.plan.answer import record_of
from calc.plan.law import near_shapes, optimal_on
from calc.plan.question import Question, short
from calc.spec.run import common_length
from calc.units import binary, duration, si

OWN = ("cluster", "days", "stack", "global_batch")
"""Options that only this way of asking has."""
LEFT = ("family", "unique_tokens", "inference_tokens", "experts", "granularity", "sparsity")
"""What a law may be asked beside it."""


def print_together(law: str, wanted: int | None, fmt: str, given: dict[str, Any]) -> None:
    """Print the answer of `calc.plan.law.optimal_on`. Errors: Refused for what is missing or said twice."""
    for name in ("gpus", "days", "family"):
        if given.get(name) is None:
            raise Refused(f"--{name}", "a value beside --cluster", "none")
    for name in ("compute", "params", "tokens", "loss", "gpu_days", "money", "gpu", "mfu"):
        if given.get(name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise Refused(option, "none beside --cluster, whose GPUs and plan tell it", given[name])
    if law == "all":
        raise Refused("--law", "one law beside --cluster", law)
    question = _question(given)
    progress = Progress()
    unused = {name: given[name] for name in LEFT if given.get(name) is not None}
    found = optimal_on(question, given["days"], law, progress, **unused, seq=question.seq)
    progress.close()
    near = near_shapes(question, found, law, wanted or 1)
    plan, built, best = found.plan, found.built, found.optimum
    sizes = ", ".join(f"{name} {size:,}" for name, size in built.sizes.items())
    rows = [
        ("parameters", si(best.params)),
        ("tokens", si(best.tokens)),
        ("loss", "–" if best.loss is None else f"{best.loss:.4f}"),
        ("model", f"{si(built.params)} ({built.off:+.1%}): {sizes}"),
        ("plan", f"{short(plan.run)} {plan.run.recipe}"),
        ("batch", f"{plan.question.sequences:,} × {plan.question.seq:,} tokens"),
        ("step", duration(plan.seconds)),
        ("MFU", "–" if plan.prediction.mfu is None else f"{plan.prediction.mfu:.1%}"),
        ("utilisation", f"{found.utilisation:.1%} of the bf16 peak by the law's FLOPs, failures included"),
        ("peak", binary(plan.peak)),
        ("rounds", f"{found.rounds}; the optimum was asked with {found.apart:.1%} more or less"),
    ]
    title = f"{law}: {given['gpus']:,} GPUs of {question.cluster.name} for {given['days']:g} days"
    tables = [Table(("", ""), rows, title + f"; {UNTIL_THEN}" * found.interrupted)]
    shapes = [{**each.sizes, "params": each.params, "off": each.off} for each in near]
    if wanted:
        names = list(near[0].sizes)
        lines = [(si(each.params), f"{each.off:+.2%}", *(f"{each.sizes[name]}" for name in names)) for each in near]
        tables.append(Table(("N", "off by", *names), lines, "models of the family near it"))
    record = {
        "law": law,
        **{name: getattr(best, name) for name in ("compute", "params", "tokens", "loss")},
        "utilisation": found.utilisation,
        "rounds": found.rounds,
        "apart": found.apart,
        "shapes": shapes,
        "plan": record_of(plan, plan),
    }
    emit([record], tables, fmt)
    end_as(found.interrupted)


def _question(given: dict[str, Any]) -> Question:
    """The GPUs, of the family's own model."""
    spec, stack, text = given["family"], given.get("stack"), given.get("global_batch")
    seq = given.get("seq") or common_length([spec])
    sequences = plan_words.sequences(text, seq)[0] if text else 0
    words, price = {"stack": stack}, given.get("price")
    return Question.about(spec, given["cluster"], given["gpus"], seq, sequences, words=words, price=price)
