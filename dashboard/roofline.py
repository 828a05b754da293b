"""The page Roofline: every op of a step as a point below the limits of a device, and what the step takes."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from calc.charts import plans
from calc.charts import roofline as charts
from calc.spec import ModelSpec
from calc.time import Bar, Point, Prediction, Roof, Speed, predict, roof, roofline, speed_of, waterfall
from calc.units import duration, parse_rate, si
from dashboard import frame, layout, picker, results, roofline_knobs, saved
from dashboard.cache import cached
from dashboard.knobs import without_pictures
from dashboard.roofline_knobs import MEASURED, Knobs

LEAD = "Each operator by its arithmetic intensity and the rate it should reach; the larger, the more time it takes."


def render(picked: picker.Picked | None) -> None:
    """Draw the page."""
    frame.header("Roofline", LEAD)
    chosen = picker.wanted(picked)
    # The answer stands above what it is asked of, which is drawn first.
    answer, controls = st.container(), st.container()
    with controls:
        st.header("What runs", anchor=False)
        knobs = roofline_knobs.ask(chosen.spec)
        without_pictures(chosen.spec)
    with frame.refusals("No prediction"):
        found, points, limits = predicted(chosen.spec, knobs, _stamp(knobs.where))
        command = shlex.join(["python", "-m", "calc", *knobs.words(chosen.reference), "--by-op"])
        saved.about(knobs.where, command)
        with answer:
            st.info(_sentence(found, knobs))
            picture, figures = layout.side_by_side()
            with picture:
                _roof(points, limits)
            with figures:
                _figures(found)
        moving = [point for point in points if not point.flops]
        if moving:
            st.header("Ops that only move data", anchor=False)
            st.caption("They have no FLOPs that count, so their limit is the bandwidth of the memory alone.")
            if any(point.bus_bandwidth is not None for point in moving):
                st.caption("Collectives stand at nccl-tests' bus bandwidth: what each rank's link carries.")
            frame.chart(
                charts.moving(moving, limits),
                "bandwidth",
                alt="Each op's bytes a second over the bytes it moves, below the memory's bandwidth.",
            )
        st.header("Where the time goes", anchor=False)
        frame.chart(charts.shares(found), "time", alt="Seconds of a step by component of the model.")
        frame.table(_rows(points), "ops", columns=_columns(), height=320)
        st.header("From the device's peak to what is reached", anchor=False)
        st.caption("Each loss with its seconds: products and attention at the peak, and what comes on top.")
        bars = waterfall(found, _speed(knobs))
        frame.chart(plans.waterfall_chart(bars), "fall", alt="The step as a waterfall of losses from the device's peak")
        st.caption("overhead: what stack and host add beside the kernels, by training steps that were measured.")
        frame.table(_fallen(found, bars), "waterfall", columns=_columns(), folded="Table")
        frame.command(command)


def _roof(points: list[Point], limits: Roof) -> None:
    alt = "Each op's FLOP/s over its FLOPs a byte, below the device's roof."
    frame.chart(charts.computing(points, limits), "roofline", alt=alt)
    directions = {point.direction for point in points}
    if len(directions) > 1:
        shapes = ", ".join(f"{sign} {name}" for name, sign in charts.SIGNS.items() if name in directions)
        st.caption(f"Shapes of the points: {shapes}.")


@cached
def _predicted(
    spec: ModelSpec, key: tuple[Any, ...], stamp: int, _knobs: Knobs
) -> tuple[Prediction, list[Point], Roof]:
    """A prediction, its ops and the device's limits. key: the knobs; stamp: when a profile was written."""
    speed = _speed(_knobs)
    decode = _knobs.phase == "decode"
    found = predict(
        spec,
        speed,
        phase=_knobs.phase,
        batch=_knobs.batch,
        seq=None if decode else _knobs.length,
        context=_knobs.length if decode else None,
        dtype=_knobs.dtype,
        execution=_knobs.execution,
        checkpointing=_knobs.checkpointing,
        **dict(_knobs.degrees),
        network=parse_rate(_knobs.network, "network") if _knobs.network else None,
    )
    return found, roofline(found), roof(speed, found.kernels)


def predicted(spec: ModelSpec, knobs: Knobs, stamp: int = 0) -> tuple[Prediction, list[Point], Roof]:
    """What the page shows. Errors: as `calc.time.predict`."""
    return _predicted(spec, tuple(vars(knobs).items()), stamp, knobs)


def _speed(knobs: Knobs) -> Speed:
    """The device, or the profile of one's own."""
    own = knobs.where.startswith(MEASURED)
    return speed_of(results.profile(knobs.where.removeprefix(MEASURED)) if own else knobs.where)


def _stamp(where: str) -> int:
    """When the profile was written: a new one is not answered from the cache."""
    if not where.startswith(MEASURED):
        return 0
    return results.profile_path(where.removeprefix(MEASURED)).stat().st_mtime_ns


def _sentence(found: Prediction, knobs: Knobs) -> str:
    """The answer: how long it takes there, and what bounds it."""
    each = {"decode": "A token", "training": "A step of training"}.get(found.phase, f"A pass ({found.phase})")
    where = f"{found.gpus:,} × {knobs.where}" if found.gpus > 1 else knobs.where
    share = found.share(found.by_bound[found.bound])
    return f"{each} takes {duration(found.seconds)} on {frame.verbatim(where)}: {found.bound} bounds {share:.0%} of it."


def _figures(found: Prediction) -> None:
    each = "token" if found.phase == "decode" else "step" if found.phase == "training" else "pass"
    span = found.interval
    slow, fast = found.tokens_per_second_between
    mfu, between = found.mfu, found.mfu_between
    with layout.cards():
        frame.metric(
            f"Time of a {each}",
            duration(found.seconds),
            f"{found.seconds!r} s",
            f"{duration(span.low)} to {duration(span.high)}",
        )
        frame.metric(
            "Tokens per second",
            si(found.tokens_per_second),
            f"{found.tokens_per_second!r}, {found.gpus} GPU(s)",
            f"{si(slow)} to {si(fast)}",
        )
        if mfu is None or between is None:
            frame.metric("MFU", "–", "Not asked of one token, or no peak is known")
        else:
            origin = f"convention {found.mfu_counting}; peak: {found.peak_source}"
            frame.metric("MFU", f"{mfu:.1%}", origin, f"{between[0]:.1%} to {between[1]:.1%}")
        frame.metric("Bound by", found.bound, "", f"{found.share(found.by_bound[found.bound]):.0%} of the time")
        if found.gpus > 1:
            frame.metric("GPUs of the plan", f"{found.gpus:,}", "", "share the work")
    with st.expander(f"Below each figure: {span.level:.0%} of measured values lie between. What it rests on"):
        st.markdown(frame.verbatim(found.source))
        for note in found.notes:
            if not note.startswith("does not fit"):
                st.caption(f"Note: {frame.verbatim(note)}")
    for note in found.notes:
        if note.startswith("does not fit"):
            st.warning(f"It {frame.verbatim(note)}")


def _rows(points: list[Point]) -> list[dict[str, Any]]:
    return [
        {
            "op": point.path,
            "function": point.function,
            "direction": point.direction,
            "component": point.component,
            "time (ms)": point.seconds * 1e3,
            "share": point.share,
            "GFLOP": point.flops / 1e9,
            "GB": point.bytes / 1e9,
            "FLOP/B": point.intensity,
            "TFLOP/s": point.rate / 1e12,
            "GB/s": point.bandwidth / 1e9,
            "bus GB/s": None if point.bus_bandwidth is None else point.bus_bandwidth / 1e9,
            "bound": point.bound,
        }
        for point in points
    ]


def _fallen(found: Prediction, bars: list[Bar]) -> list[dict[str, Any]]:
    return [{"loss": bar.what, "time (ms)": bar.seconds * 1e3, "share": bar.seconds / found.seconds} for bar in bars]


def _columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    names = ("time (ms)", "GFLOP", "GB", "FLOP/B", "TFLOP/s", "GB/s", "bus GB/s")
    return {name: number(format="%.3g") for name in names} | {"share": number(format="percent")}
