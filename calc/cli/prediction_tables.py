"""How a predicted time is shown: as a record for programs, as tables for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from calc.output.tables import Table
from calc.time import Bar, Prediction, Speed, roof, roofline
from calc.time.step.expert_rows import expert_rows
from calc.units import duration, si

SHOWN = 12
"""Ops that are listed where not all are asked for."""
ALL_SEEN = 0.99
"""Part of an op's time that its share of the step comes to where nothing else hides it, but for rounding."""
BUS = "bus: nccl-tests' bus bandwidth of a collective, what each rank's link carries"


def plan_record(it: Prediction) -> dict[str, Any]:
    """How the run is spread, and what it recomputes."""
    run = it.run
    spread = ("dp", "tp", "pp", "cp", "ep", "expert_tp", "zero", "interleave", "schedule", "shard", "stages")
    further = ("checkpointing", "checkpoint_every", "recompute", "offload", "offload_fraction", "offload_layers")
    plan = {name: getattr(run, name) for name in (*spread, *further)} | {"micro_batches": run.passes_a_step}
    plan |= {"graphs": run.usual_graphs if run.trains else None}
    return plan | {"cluster": run.cluster.name if run.cluster else None, "stack": run.stack.name if run.stack else None}


def waterfall_table(bars: list[Bar], seconds: float) -> Table:
    """The bars of a step of so many seconds, each with its share."""
    rows = [(bar.what, duration(bar.seconds), f"{bar.seconds / seconds:.1%}") for bar in bars]
    return Table(("from the peak", "time", "share"), rows)


def prediction_record(it: Prediction, by_op: bool) -> dict[str, Any]:
    """A prediction as an object of JSON; by_op: with every op's place on the roofline."""
    record: dict[str, Any] = {
        "model": it.model,
        "device": it.device,
        "phase": it.phase,
        "seconds": it.seconds,
        "tokens_per_second": it.tokens_per_second,
        "fits": it.fits,
        "memory": asdict(it.memory),
        "mfu": it.mfu,
        "mfu_convention": it.mfu_counting.convention,
        "mfu_pairs": it.mfu_counting.pairs,
        "interval": {"level": it.interval.level, "low": it.interval.low, "high": it.interval.high},
        "by_component": dict(it.by_component),
        "by_bound": dict(it.by_bound),
        "bound": it.bound,
        "peak": it.peak,
        "rests_on": it.basis,
        "source": it.source,
        "notes": list(it.notes),
        "tokens": it.tokens,
        "gpus": it.gpus,
        "execution": it.execution,
        **{name: getattr(it.run, name) for name in ("batch", "seq", "context")},
        "dtype": it.run.recipe if it.run.trains else it.run.dtype,
        "checkpointing": it.run.checkpointing,
        "expert_exchange": [each._asdict() for each in expert_rows(it.kernels, it.run)],
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
                "bus_bytes_per_second": point.bus_bandwidth,
                "bound": point.bound,
            }
            for point in roofline(it)
        ]
    return record


def prediction_tables(
    it: Prediction, speed: Speed, by_op: bool, unit: str, ahead: dict[str, Any] | None = None
) -> list[Table]:
    """The figures of a prediction, its components, and its longest ops, or all of them. unit: of what goes in. ahead:
    seconds that it takes where kernels are launched ahead, and the execution that does so, if that is worth saying."""
    memory = it.memory.sentence()
    rows = [
        ("step" if it.phase == "training" else "token" if it.phase == "decode" else "pass", duration(it.seconds)),
        (f"{it.interval.level:.0%} of measurements", f"{duration(it.interval.low)} to {duration(it.interval.high)}"),
        (f"{unit}/s", f"{it.tokens_per_second:,.0f}" if it.tokens_per_second >= 10 else f"{it.tokens_per_second:.2f}"),
        ("MFU", "–" if it.mfu is None else f"{it.mfu:.1%} ({it.mfu_counting}; peak: {it.peak_source})"),
        ("bound", ", ".join(f"{name} {it.share(value):.0%}" for name, value in _sorted(it.by_bound))),
        ("memory", memory),
        ("rests on", it.source),
    ]
    if ahead is not None:
        who = "torch.compile runs" if ahead["execution"] == "compiled" else "servers run"
        rows.append(
            ("launched ahead", f"{duration(ahead['seconds'])} with --execution {ahead['execution']}, as {who} it")
        )
    rows += [("experts' exchange", text) for text in _exchanged(it)]
    limits = roof(speed, it.kernels)
    ridges = ", ".join(f"{dtype} {si(limits.peaks[dtype], 'FLOP/s')}" for dtype in limits.peaks)
    meet = ", ".join(f"{dtype} {ridge:,.0f}" for dtype, ridge in limits.ridges.items())
    rows.append(("roofline", f"{ridges}; {si(limits.bandwidth, 'B/s')}; they meet at FLOP/B: {meet}"))
    rows += [("note", text) for text in it.notes if text != memory]  # which is a note too where it does not fit
    title = f"{it.model} on {it.device}: {_setting(it, unit)}"
    shares = [(name, duration(value), f"{value / it.seconds:.1%}") for name, value in it.by_component.items()]
    points = roofline(it)
    shown = points if by_op else points[:SHOWN]
    ops = [
        (
            f"{point.path} {point.function} {point.direction}",
            duration(point.seconds),
            f"{point.share:.1%}",
            f"{point.intensity:,.{0 if point.intensity >= 1000 else 1}f}",
            si(point.rate, "FLOP/s") if point.flops else "–",
            point.bandwidth_text,
            point.bound,
        )
        for point in shown
    ]
    left = len(points) - len(shown)
    remarks = [f"the {len(shown)} longest; --by-op lists {left} more"] if left else []
    if any(point.bus_bandwidth is not None for point in shown):
        remarks.append(BUS)
    if any(point.share * it.seconds < ALL_SEEN * point.seconds for point in shown):
        remarks.append("a share below what its time comes to: the rest of that time is hidden behind computing")
    below = "\n".join(remarks)
    return [
        Table(("", ""), rows, title),
        Table(("component", "time", "share"), shares),
        Table(("op", "time", "share", "FLOP/B", "rate", "bandwidth", "bound"), ops, "", below, dotted="op"),
    ]


def _exchanged(it: Prediction) -> list[str]:
    """What ranks send one another around experts; each thing once, where layers of several kinds do the same."""
    return list(dict.fromkeys(each.sentence(it.run.routing) for each in expert_rows(it.kernels, it.run)))


def _sorted(shares: dict[Any, float]) -> list[tuple[Any, float]]:
    return sorted(shares.items(), key=lambda item: -item[1])


def _setting(it: Prediction, unit: str) -> str:
    new = (
        f"1 token after {it.run.context:,}"
        if it.phase == "decode"
        else f"{it.run.seq:,} {unit.removesuffix('s') if it.run.seq == 1 else unit}"
    )
    gpus = "" if it.gpus == 1 else f", {it.gpus:,} GPUs"
    return f"{it.phase}, {it.run.batch:,} × {new}, {it.execution}{gpus}"
