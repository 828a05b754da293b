"""`predict`: the time of a training step, a prompt or a token on a device, with an interval."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import notes, options
from calc.cli.adapting import adapters
from calc.cli.costs import Costs, economics_table, of_costs
from calc.cli.echo import run_record, with_run
from calc.cli.memory_words import DTYPE
from calc.cli.prediction_tables import plan_record, prediction_record, prediction_tables, waterfall_table
from calc.cli.run_options import GroupedCommand, of_run
from calc.errors import Refused
from calc.output.notes import warn_beyond
from calc.output.tables import emit
from calc.quantities.modules import TIMED
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.time import speed_of
from calc.time.cluster.stacks import graphs_tell
from calc.time.device.speed import Speed
from calc.time.kernels.choice import FUSED
from calc.time.schedule.chrome import save_timeline
from calc.time.schedule.of_run import timeline_of
from calc.time.step.formats import number_formats
from calc.time.step.predicting import predict as predicted
from calc.time.step.prediction import Prediction
from calc.time.step.timed_run import TIMED_EXECUTIONS, timed_run
from calc.time.step.waterfall import waterfall

FIELDS = (
    "phase",
    "seq",
    "batch",
    "context",
    "source_seq",
    "images",
    "document",
    "dtype",
    "recipe",
    "gradient_dtype",
    "fp8_recipe",
    "fp8_param_gather",
    "cache_dtype",
    "optimizer",
    "precision_aware",
    "offload",
    "offload_fraction",
    "offload_layers",
    "checkpointing",
    "recompute",
    "checkpoint_every",
    "dp",
    "tp",
    "pp",
    "cp",
    "ep",
    "expert_tp",
    "zero",
    "sequence_parallel",
    "micro_batches",
    "interleave",
    "schedule",
    "stages",
    "shard",
    "cluster",
    "network",
    "stack",
    "graphs",
    "execution",
    "experts",
    "latent_reading",
    "routing",
    "mtp",
)
"""What a time depends on."""
IN_TRAINING = (
    *("recipe", "gradient_dtype", "fp8_recipe", "fp8_param_gather", "optimizer", "precision_aware"),
    *("offload", "offload_fraction", "offload_layers"),
    *("zero", "micro_batches", "interleave"),
    *("schedule", "shard", "stack", "graphs", "mtp"),
)
WAITS = 0.5
"""Part of a time that waits for launches, from which on it is said what another execution takes."""
LEAST = "none; with --stack or --cluster the least that fits"


@click.command(cls=GroupedCommand, short_help="Time of a training step, a prompt or a token on a device.")
@options.model
@click.option("--gpu", metavar="NAME", help="A device of the catalogue; `gpus` lists them.  [default: the cluster's]")
@click.option("--gpus", type=options.Tokens(), help="GPUs in all: --dp follows.")
@click.option("--profile", metavar="FILE", help="What `python -m harness profile` measured, or a shipped profile.")
@of_run(
    *FIELDS,
    words={"execution": TIMED_EXECUTIONS},
    defaults={
        "dtype": "bf16-mixed; bf16",
        "optimizer": "adamw, adamw-bf16 where weights are in bf16 alone",
        "checkpointing": LEAST,
    },
    texts={"dtype": DTYPE, "recompute": f"Training: computed again in backward: {', '.join(TIMED)}."},
)
@adapters
@click.option("--by-op", is_flag=True, help="Every op with its place on the roofline.")
@click.option("--waterfall", "falls", is_flag=True, help="From the device's peak to what is reached, loss by loss.")
@click.option("--timeline", metavar="FILE", help="Save a pipeline's schedule as a Chrome trace (.json).")
@of_costs
@options.output
def predict(
    model: ModelSpec,
    gpu: str | None,
    gpus: int | None,
    profile: str | None,
    by_op: bool,
    falls: bool,
    timeline: str | None,
    costs: Costs | None,
    fmt: str,
    words: dict[str, Any],
) -> None:
    """Predict the seconds of one step of MODEL: a training step, a pass over a prompt, or one token.

    Every operator of the model is a kernel with a time: matrix products by shape, attention by its tiles, all else by
    the bytes it moves; from the profile of a device, or by its datasheet and what devices like it reach. The interval
    holds 90 of 100 measured times. MFU is by PaLM's count of FLOPs, or by the
    products that run where that does not fit, as with experts. docs/prediction.md says how each time is found and
    how wrong it was.

    \b
    Examples:
      python -m calc predict llama-3-8b --gpu h100-sxm --phase decode
      python -m calc predict gpt2 --gpu a100-sxm-80gb --phase training \\
          --batch 32
      python -m calc predict llama-3-70b --gpu h200 --phase training --tp 8
      python -m calc predict gpt2 --phase training --cluster dgx-h100 --gpus 16
      python -m calc predict gpt2 --phase training --gpu h200 --waterfall
    """
    run = timed_run(model, **words, gpus=gpus)
    speed = _speed(gpu, profile, run)
    found = predicted(model, speed, run)
    run = found.run
    _warn(model, run)
    if run.trains:
        notes.unlaunched(run, [name for name, word in words.items() if word is not None])
    bars = waterfall(found, speed)
    ahead = _launched_ahead(model, speed, found)
    record = {
        **prediction_record(found, by_op),
        "launched_ahead": ahead,
        "plan": plan_record(found),
        "waterfall": [bar._asdict() for bar in bars],
    }
    tables = prediction_tables(found, speed, by_op, model.unit, ahead)
    if falls:
        tables.insert(1, waterfall_table(bars, found.seconds))
    if costs is not None:
        answer = costs.answer(model, found, speed)
        record["economics"] = answer._asdict()
        tables.insert(1, economics_table(answer))
    if timeline is not None:
        save_timeline(timeline, timeline_of(model, speed, run))
    record["run"] = _echoed(model, run)
    emit([record], with_run(tables, record["run"]), fmt)


def _launched_ahead(spec: ModelSpec, speed: Speed, found: Prediction) -> dict[str, Any] | None:
    """How long the same takes where a GPU does not wait for Python to launch kernels, and by which execution; None
    where it seldom waits."""
    waits = found.share(found.by_bound.get("launch", 0.0))
    if speed.kind != "cuda" or found.run.stack is not None or found.execution in FUSED or waits < WAITS:
        return None
    execution = "compiled" if found.run.trains else "graph"
    return {"execution": execution, "seconds": predicted(spec, speed, found.run.changed(execution=execution)).seconds}


def _echoed(spec: ModelSpec, run: Run) -> dict[str, Any]:
    """The run as an answer about time repeats it."""
    record = run_record(run, "sdpa", uses=FIELDS, specs=[spec])
    if not run.trains:
        record["formats"] = {"weights": run.dtype, "cache": number_formats(run).cache}
    return {"phase": run.phase, **record}


def _speed(gpu: str | None, profile: str | None, run: Run) -> Speed:
    """The device that is timed. Errors: Refused for several, for none, and for a GPU beside a cluster of others."""
    placed = options.of_cluster(run, gpu)
    named = placed if gpu is None and profile is None else gpu
    if (named is None) == (profile is None):
        raise Refused("--gpu", "--gpu, --profile or --cluster", "both" if named else "neither")
    if named is not None:
        return speed_of(named)
    from calc.time.device.profile import profile_named

    return speed_of(profile_named(profile or ""))


def _warn(spec: ModelSpec, run: Run) -> None:
    """Notes on what was asked and changes nothing, or is past what the model is made for; a refusal comes without."""
    decode = run.phase == "decode"
    idle = {"seq" if decode else "context"}
    idle |= {"source_seq"} if decode and spec.encoder is None and spec.takes_source else set()
    idle |= {"images"} if decode and spec.takes_pictures else set()
    idle |= set() if run.phase in ("prefill", "decode") else {"cache_dtype"}
    idle |= {"mtp"} if decode else {"latent_reading"}
    idle |= set() if run.trains else set(IN_TRAINING)
    idle |= set() if graphs_tell(spec, run) else {"graphs"}
    notes.unused(Run.model_fields.keys() - idle, run.phase)
    notes.of_inputs(spec, run.source_seq)
    notes.of_places(spec, run)
    warn_beyond(spec, run.context + 1 if decode else run.seq, "--context + 1 =" if decode else "--seq")
    if run.trains:
        notes.undivided(run)
        notes.idle(run)
