"""`params`: how many parameters."""

from __future__ import annotations

from typing import Any

import click

from calc import conventions
from calc.cli import options
from calc.cli.output import Table, emit, side_by_side
from calc.quantities import registry
from calc.quantities.parameters import parameter_shapes, parameters
from calc.query import Query
from calc.spec import ModelSpec


@click.command(short_help="Parameters: total, active, by component, by path.")
@options.models
@options.convention
@click.option("--by-path", is_flag=True, help="Every tensor with its path and shape.")
@options.output
def params(models: tuple[ModelSpec, ...], convention: str, by_path: bool, fmt: str) -> None:
    """Count the parameters of each MODEL, exactly; a tied weight counts once.

    active is the total less the routed experts that a token does not visit.

    \b
    Example:
      python -m calc params llama-3-8b mixtral-8x7b
    """
    if by_path:
        for spec in models:
            _paths(spec, fmt)
        return
    records = [_record(spec, convention) for spec in models]
    emit(records, [side_by_side(records)], fmt)


def _record(spec: ModelSpec, convention: str) -> dict[str, Any]:
    named = conventions.find(convention)
    if named.params is not None:
        for caveat in named.caveats(spec):
            click.echo(f"note: {spec.name}: {caveat}", err=True)
        return {"model": spec.name, "total": named.params(spec), "convention": named.name}
    components = parameters(spec)
    return {
        "model": spec.name,
        "total": registry.total(components),
        "active": registry.total(registry.find("params.active").compute(spec, Query())),
        "embedding": components.get("embedding", 0),
        "lm_head": components.get("lm_head", 0),
        "components": components,
    }


def _paths(spec: ModelSpec, fmt: str) -> None:
    shapes = parameter_shapes(spec)
    records = [{"model": spec.name, "path": path, "shape": list(shape)} for path, shape in shapes.items()]
    rows = [(path, " × ".join(map(str, shape))) for path, shape in shapes.items()]
    emit(records, [Table(("path", "shape"), rows, spec.name)], fmt)
