"""`memory`: what one GPU holds in training or serving, when it holds the most, and what would change that."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import click

from calc.blocks.build import with_own_length
from calc.cli import adapting, completing, notes, options, serving
from calc.cli.echo import with_run
from calc.cli.memory_tables import TERMS, advice_table, assumed, setting, tables
from calc.cli.memory_words import DTYPE, MEMORY_FIELDS, memory_record, memory_words
from calc.cli.run_options import GroupedCommand, given, of_run
from calc.errors import Refused
from calc.memory.advice import Change, changes
from calc.memory.keepers import keepers
from calc.memory.rank import Rank
from calc.memory.recomputing import least_that_fits, left_open
from calc.memory.verdict import Verdict, budget_bytes, usable, verdict
from calc.output.notes import remark, warn_beyond
from calc.output.tables import emit
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.spec.run import Run, exact_run
from calc.units import binary

CHECKPOINTING = ("checkpointing", "checkpoint_every")


@click.command(cls=GroupedCommand, short_help="Memory of a GPU: will it fit, in training or served?")
@options.model
@of_run(
    *MEMORY_FIELDS,
    defaults={
        "dtype": "bf16-mixed; bf16",
        "checkpointing": "none, where predict with --stack or --cluster takes the least that fits",
    },
    texts={"dtype": DTYPE},
)
@click.option(
    "--gpu",
    metavar="NAME",
    shell_complete=completing.gpus,
    help="The device that it is to fit; `gpus` lists them.  [default: the cluster's]",
)
@click.option("--budget", metavar="BYTES", help="What it is to fit on every GPU, such as 80GiB.")
@click.option(
    "--memory-fraction", metavar="F", default="1", show_default=True, help="How much of --gpu or --budget may be used."
)
@adapting.adapters
@options.output
def memory(
    model: ModelSpec,
    gpu: str | None,
    budget: str | None,
    memory_fraction: str,
    fmt: str,
    words: dict[str, Any],
) -> None:
    """Count the bytes that the GPU with the most holds when MODEL is trained or served, and say whether they fit.

    --batch is of one data-parallel rank: its micro-batch in training, its sequences in serving, each of --seq tokens.
    total adds up the terms, whenever each is live; peak is the most that is live at once. docs/memory.md says what each
    execution keeps, what the recipes and optimizers hold and what is left out.

    \b
    Examples:
      python -m calc memory llama-3-8b --seq 8192 --checkpointing full \\
          --gpu h200
      python -m calc memory llama-3-8b --dp 8 --zero 3 --budget 80GiB
      python -m calc memory llama-3-70b --mode inference --dtype fp8 --gpu h200
    """
    run = with_own_length(model, exact_run(**memory_words(words)))
    gpu = options.of_cluster(run, gpu) if budget is None else gpu
    run = run.changed(accelerator=gpu)
    found = verdict(model, run, *_budget(gpu, budget, memory_fraction))
    more = serving.counted(model, run, found.budget) if run.mode == "inference" else {}
    advice = [_named(change) for change in changes(model, run, found.budget)]
    if found.budget is None and usable(1, memory_fraction) != 1:
        remark("--memory-fraction changes nothing without --gpu or --budget")
    _warn(model, run)
    open_to = run.mode == "training" and found.fits is False and not found.overflows_host and left_open(run)
    least = least_that_fits(model, run, found.budget or 0) if open_to else None
    record = {
        **_record(model, found),
        **more,
        "least_checkpointing": least and {name: getattr(least, name) for name in CHECKPOINTING},
        "advice": [asdict(change) for change in advice],
        "layer": [keeper._asdict() for keeper in keepers(model, run)],
        **_run_record(run, gpu),
        "run": memory_record(run, model),
    }
    below = setting(model, run) + f"\n{assumed(least)}" * open_to
    shown = [*tables(model, found, below), *serving.tables(model, more), *advice_table(advice, run, found.fits)]
    emit([record], with_run(shown, memory_record(run, model)), fmt)


def _warn(spec: ModelSpec, run: Run) -> None:
    """Notes on what was asked and changes nothing, or less than it seems; a refusal comes without them."""
    notes.unused_in_mode(run)
    warn_beyond(spec, run.seq, "--seq")
    notes.of_inputs(spec, run.source_seq)
    notes.of_places(spec, run)
    if run.mode == "inference":
        return
    notes.undivided(run)
    notes.idle(run)
    if run.dp * run.cp > 1 and run.zero > 1 and run.pp > 1:
        remark("in a pipeline --zero 2 and 3 divide gradients only after the last micro-batch")
    if run.dp * run.cp > 1 and run.zero == 0 and not (run.stack is not None and run.stack.accumulates):
        remark("PyTorch's DDP holds gradients twice, in buckets too, unless gradient_as_bucket_view=True; not counted")


def _budget(gpu: str | None, budget: str | None, fraction: str) -> tuple[int | None, str]:
    """Bytes that one GPU gives, and what gives them."""
    if gpu is not None and budget is not None:
        raise Refused("--budget", "--gpu or --budget", "both")
    if gpu is None and budget is None:
        return None, ""
    if gpu is not None:
        device = load_device(gpu)
        whole, name = device.usable, f"{device.name} ({binary(device.usable)})"
    else:
        whole = budget_bytes(budget or "")
        name = binary(whole)
    part = usable(whole, fraction)
    return part, name if part == whole else f"{binary(part)} of {name}"


def _named(change: Change) -> Change:
    """The same change with --dtype for --recipe, where --dtype was given."""
    return replace(change, options=change.options.replace("--recipe", "--dtype")) if given("dtype") else change


def _record(spec: ModelSpec, it: Verdict) -> dict[str, Any]:
    return {
        "model": spec.name,
        **_terms(it.worst),
        "fits": it.fits,
        "budget": it.budget,
        "left": it.left,
        "rank": it.worst.stage,
        "peak_at": it.moment,
        "reserved": it.reserved,
        "host": it.host,
        "host_at_most": it.host_at_most,
        "host_room": it.host_room,
        "timeline": {name: {**live, "live": sum(live.values())} for name, live in it.worst.moments.items()},
        "ranks": [{"rank": rank.stage, **_terms(rank)} for rank in it.ranks],
    }


def _terms(rank: Rank) -> dict[str, int]:
    return {**{name: rank.terms.get(name, 0) for name in TERMS}, "total": rank.total, "peak": rank.peak}


def _run_record(run: Run, gpu: str | None) -> dict[str, Any]:
    """What the answer is to: everything that memory depends on, defaults included."""
    usual = {"execution": run.usual_execution, "optimizer": run.usual_optimizer}
    named = {name: getattr(run, name) and getattr(run, name).name for name in ("stack", "cluster")}
    whole = {name: getattr(run, name) for name in MEMORY_FIELDS} | usual | named
    return {"gpu": gpu and load_device(gpu).name, "gpus": run.gpus, "plan": whole}
