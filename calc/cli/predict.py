"""`predict`: the time of a training step, a prompt or a token on a device, with an interval."""

from __future__ import annotations

from typing import Any

import click

from calc.build import vectors_read
from calc.cli import completing, notes, options, planning
from calc.cli.output import Table, emit
from calc.errors import Refused
from calc.memory.plan import Plan
from calc.memory.precision import OPTIMIZERS, usual_optimizer
from calc.predict import Prediction, roof, roofline, speed_of
from calc.predict.predicting import predict as predicted
from calc.predict.setting import EXECUTIONS, PHASES
from calc.predict.speed import Speed
from calc.query import Query
from calc.spec import ModelSpec
from calc.units import duration, parse_rate, si

SHOWN = 12  # ops that are listed where not all are asked for


def _degree(name: str, text: str, default: str = "1", least: int = 1) -> Any:
    return click.option(name, type=options.Tokens(least), show_default=default, help=text)


_PLAN = (
    click.option(
        "--optimizer",
        type=click.Choice([each.name for each in OPTIMIZERS]),
        show_default="adamw, adamw-bf16 where weights are in bf16 alone",
        help="Training: what updates the weights.",
    ),
    _degree("--dp", "Data-parallel ranks; --batch is of one of them."),
    _degree("--tp", "Tensor-parallel ranks."),
    _degree("--pp", "Training: stages of a pipeline."),
    _degree("--cp", "Training: context-parallel ranks."),
    _degree("--ep", "Training: ranks that experts are spread over, among those of --dp and --cp."),
    _degree("--zero", "Training: data-parallel ranks divide 1 the optimizer, 2 gradients, 3 weights too.", "0", 0),
    _degree("--micro-batches", "Training: passes of a step.", "as many as fill the pipeline"),
    _degree("--interleave", "Training: chunks of layers that a pipeline rank holds."),
    click.option("--network", metavar="RATE", help="Of one GPU to other nodes: 50GB/s or 400Gbps."),
)


def _plan(function: Any) -> Any:
    for option in reversed(_PLAN):
        function = option(function)
    return function


@click.command(short_help="Time of a training step, a prompt or a token on a device.")
@options.model
@click.option(
    "--gpu", metavar="NAME", shell_complete=completing.gpus, help="A device of the catalogue; `gpus` lists them."
)
@click.option(
    "--profile",
    metavar="FILE",
    shell_complete=completing.files,
    help="What `python -m harness profile` measured, or a shipped profile.",
)
@click.option("--phase", type=click.Choice(PHASES), default="forward", show_default=True, help="What is run.")
@options.seq
@options.batch
@options.context
@click.option(
    "--dtype",
    metavar="FORMAT",
    help="Training: the recipe, as bf16-mixed. Else: format of weights, as bf16, fp8, int4:g128.  "
    "[default: bf16-mixed; bf16]",
)
@click.option(
    "--execution",
    type=click.Choice(EXECUTIONS),
    default="sdpa",
    show_default=True,
    help="eager: one kernel after the other, attention in the open; sdpa: attention in one kernel; compiled: "
    "elementwise runs in one too; graph: as that, from a CUDA graph.",
)
@options.checkpointing
@_plan
@options.source_seq
@click.option("--images", type=options.Tokens(0), default=0, show_default=True, help="Pictures a batch.")
@click.option("--by-op", is_flag=True, help="Every op with its place on the roofline.")
@options.output
def predict(
    model: ModelSpec, gpu: str | None, profile: str | None, network: str | None, by_op: bool, fmt: str, **asked: Any
) -> None:
    """Predict the seconds of one step of MODEL: a training step, a pass over a prompt, or one token.

    Every operator of the model is a kernel with a time: matrix products by shape, attention by its tiles, all else by
    the bytes it moves; from the profile of a device, or by its datasheet and what devices like it reach. The interval
    holds 90 of 100 measured times. MFU is by PaLM's count of FLOPs, or by the
    products that run where that does not fit, as with experts. docs/prediction.md says how each time is found and
    how wrong it was.

    \b
    Examples:
      python -m calc predict llama-3-8b --gpu h100-sxm --phase decode --context 4096 --execution graph
      python -m calc predict gpt2 --gpu a100-sxm-80gb --phase training --batch 32 --execution compiled
      python -m calc predict llama-3-70b --gpu h200 --phase training --tp 8 --checkpointing full --by-op
    """
    if (gpu is None) == (profile is None):
        raise Refused("--gpu", "--gpu or --profile", "both" if gpu else "neither")
    asked["seq"] = vectors_read(model, asked["seq"])
    speed = _speed(gpu, profile)
    plan = _read_plan(asked)
    _warn(model, asked, plan)
    rate = None if network is None else parse_rate(network, "--network")
    found = predicted(model, speed, plan=plan, network=rate, **asked)
    unit = "tokens" if model.reads_tokens else "vectors"
    emit([_record(found, asked, plan, by_op)], _tables(found, speed, asked, by_op, unit), fmt)


def _speed(gpu: str | None, profile: str | None) -> Speed:
    if gpu is not None:
        return speed_of(gpu)
    from calc.predict.profile import profile_named

    return speed_of(profile_named(profile or ""))


def _read_plan(asked: dict[str, Any]) -> Plan | None:
    """The options of a plan, taken out of `asked`; None where none was given."""
    names = ("optimizer", "dp", "tp", "pp", "cp", "ep", "zero", "micro_batches", "interleave")
    given = {name: value for name in names if (value := asked.pop(name)) is not None}
    if not given:
        return None
    given.setdefault("optimizer", usual_optimizer(asked["dtype"]))
    return Plan(**given)


def _warn(spec: ModelSpec, asked: dict[str, Any], plan: Plan | None) -> None:
    """Notes on what was asked and changes nothing, or is past what the model is made for."""
    decode = asked["phase"] == "decode"
    idle = {"seq" if decode else "context"}
    idle |= {"source_seq"} if spec.encoder is None else set()
    idle |= {"images"} if spec.vision is None or decode else set()
    notes.unused(Query.__dataclass_fields__.keys() - idle, asked["phase"])
    options.warn_beyond(
        spec, asked["context"] + 1 if decode else asked["seq"], "--context + 1 =" if decode else "--seq"
    )
    if asked["phase"] == "training":
        planning.note_undivided(plan or Plan())
    else:
        planning.unused(asked["phase"], Plan(mode="inference"))


def _record(it: Prediction, asked: dict[str, Any], plan: Plan | None, by_op: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "model": it.model,
        "device": it.device,
        "phase": it.phase,
        "seconds": it.seconds,
        "tokens_per_second": it.tokens_per_second,
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
        **{name: asked[name] for name in ("batch", "seq", "context", "dtype", "checkpointing")},
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


def _tables(it: Prediction, speed: Speed, asked: dict[str, Any], by_op: bool, unit: str) -> list[Table]:
    rows = [
        ("step" if it.phase == "training" else "token" if it.phase == "decode" else "pass", duration(it.seconds)),
        (f"{it.interval.level:.0%} of measurements", f"{duration(it.interval.low)} to {duration(it.interval.high)}"),
        (f"{unit}/s", f"{it.tokens_per_second:,.0f}" if it.tokens_per_second >= 10 else f"{it.tokens_per_second:.2f}"),
        ("MFU", "–" if it.mfu is None else f"{it.mfu:.1%} ({it.mfu_convention}, peak: {it.peak_source})"),
        ("bound", ", ".join(f"{name} {it.share(value):.0%}" for name, value in _sorted(it.by_bound))),
        ("rests on", it.source),
    ]
    limits = roof(speed, it.kernels)
    ridges = ", ".join(f"{dtype} {si(limits.peaks[dtype], 'FLOP/s')}" for dtype in limits.peaks)
    meet = ", ".join(f"{dtype} {ridge:,.0f}" for dtype, ridge in limits.ridges.items())
    rows.append(("roofline", f"{ridges}; {si(limits.bandwidth, 'B/s')}; they meet at FLOP/B: {meet}"))
    rows += [("note", text) for text in it.notes]
    title = f"{it.model} on {it.device}: {_setting(it, asked, unit)}"
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


def _setting(it: Prediction, asked: dict[str, Any], unit: str) -> str:
    new = f"1 token after {asked['context']:,}" if it.phase == "decode" else f"{asked['seq']:,} {unit}"
    gpus = "" if it.gpus == 1 else f", {it.gpus:,} GPUs"
    return f"{it.phase}, {asked['batch']:,} × {new}, {it.execution}{gpus}"
