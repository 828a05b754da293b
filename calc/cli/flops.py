"""`flops`: floating-point operations of a forward pass, a prompt, a training step or one decoded token."""

from __future__ import annotations

from typing import Any

import click

from calc import conventions
from calc.ask import registry
from calc.cli import adapting, notes, options
from calc.cli.echo import run_record, with_run
from calc.cli.run_options import GroupedCommand, of_run
from calc.output.notes import note, warn_beyond
from calc.output.tables import emit, side_by_side
from calc.spec import ModelSpec
from calc.spec.run import FLOPS_PHASES, Run

FIELDS = (
    "phase",
    "seq",
    "batch",
    "context",
    "source_seq",
    "images",
    "image",
    "document",
    "mtp",
    "checkpointing",
    "latent_reading",
    "convention",
)
"""What FLOPs depend on."""


@click.command(cls=GroupedCommand, short_help="FLOPs: forward, prefill, training with checkpointing, decode.")
@options.models
@of_run(*FIELDS, words={"phase": FLOPS_PHASES})
@adapting.adapters
@options.output
def flops(models: tuple[ModelSpec, ...], fmt: str, words: dict[str, Any]) -> None:
    """Count the FLOPs of each MODEL for the whole batch; a multiply-accumulate is two.

    total is linear (products with weights, logits included) + attention (scores and values) + other. per_token
    divides it by the new tokens of the batch.

    \b
    Examples:
      python -m calc flops llama-3-8b --seq 4096 --phase training \\
          --checkpointing full
      python -m calc flops gpt2 --phase decode --context 512 --json
    """
    run = Run(**words)
    quantity = registry.find(f"flops.{run.phase}")
    notes.unused((*quantity.uses, "phase"), quantity.name)
    records = [_record(spec, run) for spec in models]
    echoed = run_record(run, uses=quantity.uses, specs=models)
    tables = with_run([side_by_side(records)], echoed)
    emit([record | {"run": echoed} for record in records], tables, fmt)


def _record(spec: ModelSpec, run: Run) -> dict[str, Any]:
    decode = run.phase == "decode"
    notes.of_inputs(spec, run.source_seq, registry.find(f"flops.{run.phase}").uses)
    notes.of_places(spec, run)
    convention = conventions.find(run.convention)
    count = conventions.flops(spec, run)
    warn_beyond(spec, run.context + 1 if decode else run.seq, "--context + 1 =" if decode else "--seq")
    if spec.takes_pictures and not decode and not run.images:
        adds = "the work of its vision tower" if spec.vision or spec.eyes else "one behind each of N texts"
        note(spec, f"no pictures are read; --images N adds {adds}")
    if spec.audio is not None and not decode and run.source_seq is None:
        note(spec, "no sound is read; --frames N adds the work of its audio tower")
    for caveat in conventions.caveats(spec, run):
        note(spec, caveat)
    return {
        "model": spec.name,
        "total": count.total,
        "linear": count.linear,
        "attention": count.attention,
        "other": count.other,
        **({"per_token": count.per_token(run.tokens)} if spec.reads_tokens else {}),
        "convention": convention.name,
    }
