"""A design of experiments as runs that can be made: sizes that exist, tokens, learning rate, batch."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from calc.errors import Refused
from calc.laws.base import Law
from calc.laws.hyperparameters import hyperparameters
from calc.optimum.costs import without_tables
from calc.optimum.shapes import Shape, shapes
from calc.spec import ModelSpec

if TYPE_CHECKING:
    from calc.fitting.sweeps import Design


_OFF = 0.25
"""A size that no model of the family comes nearer to than this is left out."""


def existing(design: Design, law: Law, family: ModelSpec) -> tuple[Design, dict[float, Shape]]:
    """The design with sizes of models of the family, tokens such that 6 N D stays; and the model of each size.

    Sizes that no model comes near to, such as those below the embeddings alone, are left out.
    """
    models: dict[float, Shape] = {}
    for size in sorted(set(design.params.tolist())):
        with suppress(Refused):
            found = shapes(family, size, law.counts, limit=1)[0]
            if abs(found.off) < _OFF:
                models[size] = found
    kept = [i for i, size in enumerate(design.params.tolist()) if size in models]
    params = design.params[kept].copy()
    params[:] = [models[size].params for size in design.params[kept].tolist()]
    tokens = design.tokens[kept] * design.params[kept] / params
    made = design._replace(params=params, tokens=tokens, curve=design.curve[kept])
    return made, {float(model.params): model for model in models.values()}


def runs(design: Design, models: dict[float, Shape], law: Law, seq: int) -> list[dict[str, Any]]:
    """One row a run, the cheapest first, with the columns that `fit` reads but for the loss.

    params: as the law counts them, the model's sizes in further columns. tokens: rounded to whole batches.
    batch_tokens: rounded to whole sequences of `seq`. lr: at its peak. flops: 6 N D.
    """
    rows = []
    for name, params, tokens in zip(design.curve.tolist(), design.params.tolist(), design.tokens.tolist(), strict=True):
        model = models[params]
        chosen = hyperparameters(law, 6 * params * tokens, params, tokens, without_tables(model.spec))
        batch = max(1, round(chosen.batch_tokens / seq)) * seq
        steps = max(1, round(tokens / batch))
        rows.append(
            {
                "run": name,
                "params": model.params,
                "tokens": steps * batch,
                "lr": None if chosen.learning_rate is None else float(f"{chosen.learning_rate:.3g}"),
                "batch_tokens": batch,
                "steps": steps,
                "flops": 6 * model.params * steps * batch,
                **model.sizes,
            }
        )
    return sorted(rows, key=lambda row: row["flops"])
