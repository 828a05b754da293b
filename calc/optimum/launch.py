"""A design of experiments as runs that can be made: sizes that exist, tokens, learning rate, batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calc.errors import Refused
from calc.laws.base import Law
from calc.laws.hyperparameters import hyperparameters
from calc.optimum.costs import without_tables
from calc.optimum.shapes import Shape, shapes
from calc.spec import ModelSpec

if TYPE_CHECKING:
    from calc.fitting.sweeps import Design


_TINY = (7_000, 830_000)
"""Parameters of the smallest and largest model to practise on."""
_MOST_TINY = 9
_OFF = 0.25
"""A size that no model of the family comes nearer to than this is left out."""


def existing(design: Design, law: Law, family: ModelSpec) -> tuple[Design, dict[float, Shape]]:
    """The design with sizes of models of the family, tokens such that 6 N D stays; and the model of each size.

    Sizes that no model comes near to, such as those below the embeddings alone, are left out.
    Errors: Refused for a family of which no size can be built.
    """
    models: dict[float, Shape] = {}
    refusal = None
    sizes = sorted(set(design.params.tolist()))
    for size in sizes:
        try:
            found = shapes(family, size, law.counts, limit=1)[0]
        except Refused as error:
            refusal = error
            continue
        if abs(found.off) < _OFF:
            models[size] = found
    if refusal is not None and not models:
        raise Refused("--family", refusal.expected, refusal.found)
    chosen = [i for i, size in enumerate(design.params.tolist()) if size in models]
    params = design.params[chosen].copy()
    params[:] = [models[size].params for size in design.params[chosen].tolist()]
    tokens = design.tokens[chosen] * design.params[chosen] / params
    made = design._replace(params=params, tokens=tokens, curve=design.curve[chosen])
    return made, {float(model.params): model for model in models.values()}


def practice_command(design: Design) -> str:
    """A command that trains tiny models as widely and as densely spaced as the design's sizes are, on one CPU.

    They are GPTs of 7 thousand to 830 thousand parameters with heads of 16, as `harness.scaling` trains them.
    """
    import numpy as np

    log_n = np.log(np.unique(design.params))
    if log_n.size > _MOST_TINY:
        log_n = np.linspace(log_n[0], log_n[-1], _MOST_TINY)
    wide = max(float(np.ptp(log_n)), 1e-9)
    wanted = np.log(_TINY[0]) + (log_n - log_n[0]) / wide * np.log(_TINY[1] / _TINY[0])
    shapes = [(d, n) for d in range(16, 161, 16) for n in range(1, 7) if d <= 64 * n and n <= d // 16]
    count = np.array([math.log(12 * d * d * n + 128 * d) for d, n in shapes])
    nearest = sorted(
        {shapes[int(np.abs(count - each).argmin())] for each in wanted}, key=lambda each: each[0] ** 2 * each[1]
    )
    return f"python -m harness run --suite scaling --sizes {','.join(f'{d}x{n}' for d, n in nearest)}"


def runs(design: Design, models: dict[float, Shape], law: Law, seq: int, gpus: int = 1) -> list[dict[str, Any]]:
    """One row a run, the cheapest first, with the columns that `fit` reads but for the loss.

    params: as the law counts them, the model's sizes in further columns. tokens: rounded to whole batches.
    batch_tokens: rounded to whole sequences of `seq` on each of so many GPUs. lr: at its peak. flops: 6 N D.
    """
    rows = []
    for name, params, tokens in zip(design.curve.tolist(), design.params.tolist(), design.tokens.tolist(), strict=True):
        model = models[params]
        chosen = hyperparameters(law, 6 * params * tokens, params, tokens, without_tables(model.spec))
        batch = max(1, round(chosen.batch_tokens / (seq * gpus))) * seq * gpus
        steps = max(1, round(tokens / batch))
        rows.append(
            {
                "run": name,
                "params": model.params,
                "without_embeddings": without_tables(model.spec),
                "tokens": steps * batch,
                "lr": None if chosen.learning_rate is None else float(f"{chosen.learning_rate:.3g}"),
                "batch_tokens": batch,
                "steps": steps,
                "flops": 6 * model.params * steps * batch,
                **model.sizes,
            }
        )
    return sorted(rows, key=lambda row: row["flops"])
