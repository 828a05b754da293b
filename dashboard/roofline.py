"""The page Roofline: every op of a step as a point below the limits of a device, and what the step takes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import streamlit as st

from calc.hardware import device_names
from calc.memory.plan import Plan
from calc.memory.precision import RECIPE_BY_NAME
from calc.predict import Point, Prediction, Roof, predict, roof, roofline, speed_of
from calc.predict.setting import EXECUTIONS
from calc.query import CHECKPOINTING, common_context
from calc.spec import ModelSpec
from calc.units import duration, si
from dashboard import frame, picker, results, roofline_charts
from dashboard.cache import cached
from dashboard.knobs import forget_stale

DEVICE = "h100-sxm"
MEASURED = "measured: "
"""What stands before the name of a device whose own profile is among the results."""
FORMATS = ("bf16", "fp16", "fp8", "fp32", "int8", "int4:g128")
LONGEST = 131_072
LEAD = (
    "Every operator of a step by its arithmetic intensity and the rate it is expected to reach; the larger a point, "
    "the more of the time it takes."
)


@dataclass(frozen=True)
class Knobs:
    """What is asked. where: a device of the catalogue, or `measured: SLUG`. length: new tokens, or those cached."""

    where: str
    phase: Any
    batch: int
    length: int
    dtype: str
    execution: Any
    checkpointing: Any
    tp: int

    def words(self, reference: str) -> list[str]:
        """The same as words for the command line."""
        speed = ["--gpu", self.where]
        if self.where.startswith(MEASURED):
            speed = ["--profile", str(results.profile_path(self.where.removeprefix(MEASURED)))]
        length = ["--context" if self.phase == "decode" else "--seq", str(self.length)]
        words = ["predict", reference, *speed, "--phase", self.phase, "--batch", str(self.batch), *length]
        words += ["--dtype", self.dtype, "--execution", self.execution]
        if self.checkpointing != "none":
            words += ["--checkpointing", self.checkpointing]
        return words + (["--tp", str(self.tp)] if self.tp > 1 else [])


def render(picked: picker.Picked | None) -> None:
    """Draw the page."""
    frame.header("Roofline", LEAD)
    chosen = picker.wanted(picked)
    knobs = _knobs(chosen.spec)
    with frame.refusals("No prediction"):
        found, points, limits = asked(chosen.spec, knobs, _stamp(knobs.where))
        _figures(found)
        directions = {point.direction for point in points}
        if len(directions) > 1:
            shapes = ", ".join(f"{sign} {name}" for name, sign in roofline_charts.SIGNS.items() if name in directions)
            st.caption(f"Shapes of the points: {shapes}.")
        frame.chart(
            roofline_charts.computing(points, limits),
            "roofline",
            alt="Each op's FLOP/s over its FLOPs a byte, below the device's roof.",
        )
        moving = [point for point in points if not point.flops]
        if moving:
            st.subheader("Ops that only move data", anchor=False)
            st.caption("They have no FLOPs that count, so their limit is the bandwidth of the memory alone.")
            frame.chart(
                roofline_charts.moving(moving, limits),
                "bandwidth",
                alt="Each op's bytes a second over the bytes it moves, below the memory's bandwidth.",
            )
        st.subheader("Where the time goes", anchor=False)
        frame.chart(roofline_charts.shares(found), "time", alt="Seconds of a step by component of the model.")
        frame.table(_rows(points), "ops", columns=_columns(), height=320)
        frame.command(shlex.join(["python", "-m", "calc", *knobs.words(chosen.reference), "--by-op"]))


@cached
def _asked(spec: ModelSpec, key: tuple[Any, ...], stamp: int, _knobs: Knobs) -> tuple[Prediction, list[Point], Roof]:
    """A prediction, its ops and the device's limits. key: the knobs; stamp: when a profile was written."""
    own = _knobs.where.startswith(MEASURED)
    speed = speed_of(results.profile(_knobs.where.removeprefix(MEASURED)) if own else _knobs.where)
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
        plan=Plan(tp=_knobs.tp, optimizer="adamw-bf16" if _knobs.dtype == "bf16" else "adamw"),
    )
    return found, roofline(found), roof(speed, found.kernels)


def asked(spec: ModelSpec, knobs: Knobs, stamp: int = 0) -> tuple[Prediction, list[Point], Roof]:
    """What the page shows. Errors: as `calc.predict.predict`."""
    return _asked(spec, tuple(vars(knobs).items()), stamp, knobs)


def _stamp(where: str) -> int:
    """When the profile was written: a new one is not answered from the cache."""
    if not where.startswith(MEASURED):
        return 0
    return results.profile_path(where.removeprefix(MEASURED)).stat().st_mtime_ns


def _knobs(spec: ModelSpec) -> Knobs:
    phases = ("forward", "training") if spec.head is None else ("prefill", "decode", "training", "forward")
    devices = [*device_names(), *(MEASURED + slug for slug in results.profiles())]
    forget_stale("phase", list(phases))
    left, right = st.columns(2)
    with left:
        phase = st.segmented_control(
            "What is run",
            phases,
            default=phases[0],
            required=True,
            key="phase",
            bind="query-params",
            help="prefill: a prompt, logits of its last token; decode: one token more for each sequence; training: a "
            "step with backward and optimizer; forward: a pass with all logits",
        )
        batch = st.select_slider(
            "Batch (sequences)", [2**power for power in range(13)], key="batch", bind="query-params", value=1
        )
        lengths = _lengths(spec, phase == "decode")
        key = "context" if phase == "decode" else "tokens"
        forget_stale(key, lengths)
        length = st.select_slider(
            "Context (tokens in the cache)" if phase == "decode" else "Sequence (tokens)",
            lengths,
            value=next((each for each in lengths if each >= 2048), lengths[-1]),
            key=key,
            bind="query-params",
        )
    with right:
        where = st.selectbox("Device", devices, index=devices.index(DEVICE), key="gpu", bind="query-params")
        one, two, three = st.columns(3)
        training = phase == "training"
        dtypes = [*RECIPE_BY_NAME] if training else [*FORMATS]
        key = "recipe" if training else "weights_in"
        first = dtypes.index("bf16-mixed" if training else "bf16")
        dtype = one.selectbox("Formats" if training else "Weights", dtypes, index=first, key=key, bind="query-params")
        execution = two.selectbox(
            "Kernels",
            EXECUTIONS,
            index=EXECUTIONS.index("sdpa"),
            key="execution",
            bind="query-params",
            help="eager: attention in the open; sdpa: attention in one kernel; compiled: elementwise runs in one "
            "too; graph: as that, replayed from a CUDA graph",
        )
        tp = three.selectbox("GPUs (TP)", (1, 2, 4, 8), key="tp", bind="query-params", help="Tensor-parallel ranks")
        checkpointing = "none"
        if training:
            checkpointing = st.selectbox("Checkpointing", CHECKPOINTING, key="checkpointing", bind="query-params")
    return Knobs(where, phase, batch, length, dtype, execution, checkpointing, tp)


def _lengths(spec: ModelSpec, decode: bool) -> list[int]:
    """Powers of two up to what the model takes, and that."""
    limit = min(spec.max_seq_len or LONGEST, LONGEST)
    limit = common_context([spec], limit) if decode else limit
    found = [2**power for power in range(7, 18) if 2**power < limit]
    return [*found, limit] if found else [max(limit, 1), max(limit, 1) + 1]


def _figures(found: Prediction) -> None:
    each = "token" if found.phase == "decode" else "step" if found.phase == "training" else "pass"
    span = found.interval
    slow, fast = found.tokens_per_second_between
    mfu, between = found.mfu, found.mfu_between
    first, second, third, fourth = st.columns(4)
    with first:
        frame.metric(
            f"Time of a {each}",
            duration(found.seconds),
            f"{found.seconds!r} s",
            f"{duration(span.low)} to {duration(span.high)}",
        )
    with second:
        frame.metric(
            "Tokens per second",
            si(found.tokens_per_second),
            f"{found.tokens_per_second!r}, {found.gpus} GPU(s)",
            f"{si(slow)} to {si(fast)}",
        )
    with third:
        if mfu is None or between is None:
            frame.metric("MFU", "–", "Not asked of one token, or no peak is known")
        else:
            origin = f"convention {found.mfu_convention}, peak: {found.peak_source}"
            frame.metric("MFU", f"{mfu:.1%}", origin, f"{between[0]:.1%} to {between[1]:.1%}")
    with fourth:
        frame.metric("Bound by", found.bound, "", f"{found.share(found.by_bound[found.bound]):.0%} of the time")
    st.caption(
        f"Below each figure: {span.level:.0%} of measured values lie between. Rests on {frame.verbatim(found.source)}"
    )
    for note in found.notes:
        st.caption(f"Note: {frame.verbatim(note)}")


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
            "bound": point.bound,
        }
        for point in points
    ]


def _columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    names = ("time (ms)", "GFLOP", "GB", "FLOP/B", "TFLOP/s", "GB/s")
    return {name: number(format="%.3g") for name in names} | {"share": number(format="percent")}
