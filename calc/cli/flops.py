"""`flops`: floating-point operations of a forward pass, a training step or one decoded token."""

from __future__ import annotations

from typing import Any

import click

from calc import conventions
from calc.ask import registry
from calc.cli import adapting, notes, options
from calc.output.notes import note, warn_beyond
from calc.output.tables import emit, side_by_side
from calc.query import Query
from calc.spec import ModelSpec


@click.command(short_help="FLOPs: forward, training with checkpointing, decode.")
@options.models
@options.seq
@options.batch
@options.phase
@options.context
@options.checkpointing
@options.inputs
@options.latent_reading
@options.mtp
@options.convention
@adapting.adapters
@options.output
def flops(models: tuple[ModelSpec, ...], fmt: str, **asked: Any) -> None:
    """Count the FLOPs of each MODEL for the whole batch; a multiply-accumulate is two.

    total is linear (products with weights, logits included) + attention (scores and values) + other. per_token
    divides it by the new tokens of the batch.

    \b
    Examples:
      python -m calc flops llama-3-8b --seq 4096 --phase training --checkpointing full
      python -m calc flops gpt2 --phase decode --context 512 --json
    """
    query = Query(**asked)
    quantity = registry.find(f"flops.{query.phase}")
    notes.unused((*quantity.uses, "phase"), quantity.name)
    records = [_record(spec, query) for spec in models]
    emit(records, [side_by_side(records)], fmt)


def _record(spec: ModelSpec, query: Query) -> dict[str, Any]:
    decode = query.phase == "decode"
    convention = conventions.find(query.convention)
    count = conventions.flops(spec, query)
    warn_beyond(spec, query.context + 1 if decode else query.seq, "--context + 1 =" if decode else "--seq")
    if spec.vision is not None and not decode and not query.images:
        note(spec, "no pictures are read; --images N adds the work of its vision tower")
    for caveat in convention.caveats(spec):
        note(spec, caveat)
    return {
        "model": spec.name,
        "total": count.total,
        "linear": count.linear,
        "attention": count.attention,
        "other": count.other,
        **({"per_token": count.per_token(query.tokens)} if spec.reads_tokens else {}),
        "convention": convention.name,
    }
