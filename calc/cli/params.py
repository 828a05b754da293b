"""`params`: how many parameters."""

from __future__ import annotations

from typing import Any

import click

from calc.ask.estimate import estimate
from calc.cli import adapting, options
from calc.cli.run_options import GroupedCommand, of_run
from calc.output.notes import note
from calc.output.tables import Table, emit, side_by_side
from calc.quantities.parameters import by_tower, parameter_shapes
from calc.spec import ModelSpec


@click.command(cls=GroupedCommand, short_help="Parameters: total, active, by component, by path.")
@options.models
@of_run("convention", "mtp")
@adapting.adapters
@click.option("--by-path", is_flag=True, help="Every tensor with its path and shape.")
@options.output
def params(models: tuple[ModelSpec, ...], by_path: bool, fmt: str, words: dict[str, Any]) -> None:
    """Count the parameters of each MODEL, exactly; a tied weight counts once.

    active is the total less the routed experts that a token does not visit. A model that sees has its text and its
    vision tower, projector included, counted apart too. Beside an adapter all else is frozen, and trainable is what
    the adapter adds. A convention with a formula of its own for parameters (lecture, kaplan, megatron) gives that
    formula's total and terms instead.

    \b
    Example:
      python -m calc params llama-3-8b mixtral-8x7b
      python -m calc params llama-3-8b --lora-rank 8
    """
    options.note_reconstructed(models)
    convention, mtp = words.get("convention", "torch"), words.get("mtp", False)
    if by_path:
        for spec in models:
            _paths(spec, mtp, fmt)
        return
    records = [_record(spec, convention, mtp) for spec in models]
    emit(records, [side_by_side(records)], fmt)


def _record(spec: ModelSpec, convention: str, mtp: bool) -> dict[str, Any]:
    counted = estimate(spec, "params", convention=convention, mtp=mtp)
    for caveat in counted.caveats:
        note(spec, caveat)
    components = dict(counted.terms)
    if counted.convention is not None:
        own = {"components": components, "convention": counted.convention}
        return {"model": spec.name, "total": counted.value, **own}
    active = estimate(spec, "params.active", mtp=mtp)
    return {
        "model": spec.name,
        "total": counted.value,
        "active": active.value,
        **({} if spec.adapter is None else {"trainable": estimate(spec, "params.trainable").value}),
        **by_tower(components, active.terms),
        "embedding": components.get("embedding", 0),
        "lm_head": components.get("lm_head", 0),
        "components": components,
    }


def _paths(spec: ModelSpec, mtp: bool, fmt: str) -> None:
    shapes = parameter_shapes(spec, mtp=mtp)
    records = [{"model": spec.name, "path": path, "shape": list(shape)} for path, shape in shapes.items()]
    rows = [(path, " × ".join(map(str, shape))) for path, shape in shapes.items()]
    emit(records, [Table(("path", "shape"), rows, spec.name)], fmt)
