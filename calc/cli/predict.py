"""`predict`: the time of a training step, a prompt or a token on a device, with an interval."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from calc.cli import notes, options
from calc.cli.echo import run_record, with_run
from calc.cli.memory_words import DTYPE
from calc.cli.run_options import GroupedCommand, of_run
from calc.errors import Refused
from calc.output.notes import warn_beyond
from calc.output.tables import Table, emit
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.time import Prediction, roof, roofline, speed_of
from calc.time.device.speed import Speed
from calc.time.step.formats import number_formats
from calc.time.step.predicting import predict as predicted
from calc.time.step.timed_run import TIMED_EXECUTIONS, timed_run
from calc.units import duration, si

SHOWN = 12  # ops that are listed where not all are asked for


FIELDS = (
    "phase",
    "seq",
    "batch",
    "context",
    "source_seq",
    "images",
    "dtype",
    "recipe",
    "cache_dtype",
    "optimizer",
    "checkpointing",
    "dp",
    "tp",
    "pp",
    "cp",
    "ep",
    "zero",
    "sequence_parallel",
    "micro_batches",
    "interleave",
    "stages",
    "network",
    "execution",
    "experts",
    "latent_reading",
    "routing",
)
"""What a time depends on."""
IN_TRAINING = ("recipe", "optimizer", "zero", "micro_batches", "interleave")


@click.command(cls=GroupedCommand, short_help="Time of a training step, a prompt or a token on a device.")
@options.model
@click.option("--gpu", metavar="NAME", help="A device of the catalogue; `gpus` lists them.")
@click.option("--profile", metavar="FILE", help="What `python -m harness profile` measured, or a shipped profile.")
@of_run(
    *FIELDS,
    words={"execution": TIMED_EXECUTIONS},
    defaults={"dtype": "bf16-mixed; bf16", "optimizer": "adamw, adamw-bf16 where weights are in bf16 alone"},
    texts={"dtype": DTYPE},
)
@click.option("--by-op", is_flag=True, help="Every op with its place on the roofline.")
@options.output
def predict(
    model: ModelSpec, gpu: str | None, profile: str | None, by_op: bool, fmt: str, words: dict[str, Any]
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
      python -m calc predict gpt2 --gpu a100-sxm-80gb --phase training --batch 32
      python -m calc predict llama-3-70b --gpu h200 --phase training --tp 8
    """
    if (gpu is None) == (profile is None):
        raise Refused("--gpu", "--gpu or --profile", "both" if gpu else "neither")
    speed = _speed(gpu, profile)
    run = timed_run(model, **words)
    _warn(model, run)
    found = predicted(model, speed, run)
    unit = "tokens" if model.reads_tokens else "vectors"
    record = {**_record(found, by_op), "run": _echoed(model, run)}
    emit([record], with_run(_tables(found, speed, by_op, unit), _echoed(model, run)), fmt)


def _echoed(spec: ModelSpec, run: Run) -> dict[str, Any]:
    """The run as an answer about time repeats it."""
    record = run_record(run, "sdpa", uses=FIELDS, specs=[spec])
    if not run.trains:
        record["formats"] = {"weights": run.dtype, "cache": number_formats(run).cache}
    return {"phase": run.phase, **record}


def _speed(gpu: str | None, profile: str | None) -> Speed:
    if gpu is not None:
        return speed_of(gpu)
    from calc.time.device.profile import profile_named

    return speed_of(profile_named(profile or ""))


def _warn(spec: ModelSpec, run: Run) -> None:
    """Notes on what was asked and changes nothing, or is past what the model is made for."""
    decode = run.phase == "decode"
    idle = {"seq" if decode else "context"}
    idle |= {"source_seq"} if spec.encoder is None else set()
    idle |= {"images"} if spec.vision is None or decode else set()
    idle |= set() if run.phase in ("prefill", "decode") else {"cache_dtype"}
    idle |= set() if decode else {"latent_reading"}
    idle |= set() if run.trains else set(IN_TRAINING)
    notes.unused(Run.model_fields.keys() - idle, run.phase)
    warn_beyond(spec, run.context + 1 if decode else run.seq, "--context + 1 =" if decode else "--seq")
    if run.trains:
        notes.undivided(run)


def _record(it: Prediction, by_op: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "model": it.model,
        "device": it.device,
        "phase": it.phase,
        "seconds": it.seconds,
        "tokens_per_second": it.tokens_per_second,
        "fits": it.fits,
        "memory": asdict(it.memory),
        "mfu": it.mfu,
        "mfu_convention": it.mfu_convention,
        "interval": {"level": it.interval.level, "low": it.interval.low, "high": it.interval.high},
        "by_component": dict(it.by_component),
        "by_bound": dict(it.by_bound),
        "bound": it.bound,
        "peak": it.peak,
        "rests_on": it.rests,
        "source": it.source,
        "notes": list(it.notes),
        "tokens": it.tokens,
        "gpus": it.gpus,
        "execution": it.execution,
        **{name: getattr(it.run, name) for name in ("batch", "seq", "context")},
        "dtype": it.run.recipe if it.run.trains else it.run.dtype,
        "checkpointing": it.run.checkpointing,
    }
    if by_op:
        record["ops"] = [
            {
                "path": point.path,
                "function": point.function,
                "direction": point.direction,
                "component": point.component,
                "seconds": point.seconds,
                "share": point.share,
                "flops": point.flops,
                "bytes": point.bytes,
                "intensity": point.intensity,
                "flops_per_second": point.rate,
                "bytes_per_second": point.bandwidth,
                "bound": point.bound,
            }
            for point in roofline(it)
        ]
    return record


def _tables(it: Prediction, speed: Speed, by_op: bool, unit: str) -> list[Table]:
    rows = [
        ("step" if it.phase == "training" else "token" if it.phase == "decode" else "pass", duration(it.seconds)),
        (f"{it.interval.level:.0%} of measurements", f"{duration(it.interval.low)} to {duration(it.interval.high)}"),
        (f"{unit}/s", f"{it.tokens_per_second:,.0f}" if it.tokens_per_second >= 10 else f"{it.tokens_per_second:.2f}"),
        ("MFU", "–" if it.mfu is None else f"{it.mfu:.1%} ({it.mfu_convention}, peak: {it.peak_source})"),
        ("bound", ", ".join(f"{name} {it.share(value):.0%}" for name, value in _sorted(it.by_bound))),
        ("memory", it.memory.sentence()),
        ("rests on", it.source),
    ]
    limits = roof(speed, it.kernels)
    ridges = ", ".join(f"{dtype} {si(limits.peaks[dtype], 'FLOP/s')}" for dtype in limits.peaks)
    meet = ", ".join(f"{dtype} {ridge:,.0f}" for dtype, ridge in limits.ridges.items())
    rows.append(("roofline", f"{ridges}; {si(limits.bandwidth, 'B/s')}; they meet at FLOP/B: {meet}"))
    rows += [("note", text) for text in it.notes]
    title = f"{it.model} on {it.device}: {_setting(it, unit)}"
    shares = [(name, duration(value), f"{value / it.seconds:.1%}") for name, value in it.by_component.items()]
    points = roofline(it)
    shown = points if by_op else points[:SHOWN]
    ops = [
        (
            f"{point.path} {point.function} {point.direction}",
            duration(point.seconds),
            f"{point.share:.1%}",
            f"{point.intensity:,.1f}",
            si(point.rate, "FLOP/s") if point.flops else "–",
            si(point.bandwidth, "B/s"),
            point.bound,
        )
        for point in shown
    ]
    left = len(points) - len(shown)
    note = f"the {len(shown)} longest; --by-op lists {left} more" if left else ""
    return [
        Table(("", ""), rows, title),
        Table(("component", "time", "share"), shares),
        Table(("op", "time", "share", "FLOP/B", "rate", "bandwidth", "bound"), ops, "", note),
    ]


def _sorted(shares: dict[Any, float]) -> list[tuple[Any, float]]:
    return sorted(shares.items(), key=lambda item: -item[1])


def _setting(it: Prediction, unit: str) -> str:
    new = f"1 token after {it.run.context:,}" if it.phase == "decode" else f"{it.run.seq:,} {unit}"
    gpus = "" if it.gpus == 1 else f", {it.gpus:,} GPUs"
    return f"{it.phase}, {it.run.batch:,} × {new}, {it.execution}{gpus}"
