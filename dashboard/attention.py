"""Attention: standard against flash over the length of a sequence, and what sharing of keys saves in decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from calc.attention import AttentionShape, Blocks, best_blocks, on_chip
from calc.attention.bounds import crossovers
from calc.attention.model import left_out, shape_of
from calc.attention.shape import DIRECTIONS
from calc.charts import attention as charts
from calc.spec.catalogue import device_names, load_device
from calc.time.attention_calls.attention_sweep import Point, sweep
from calc.time.attention_calls.crossing import time_crossover
from dashboard import attention_known as known
from dashboard import frame, layout, picker, saved
from dashboard.cache import cached
from dashboard.knobs import forget_stale, holding
from dashboard.shared import share

LENGTHS = tuple(2**power for power in range(7, 18))
HEADS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)
BATCHES = tuple(2**power for power in range(9))
GPU = "h100-sxm"
NEEDS = {
    "flops": "FLOPs as executed",
    "traffic": "Bytes through main memory",
    "peak": "Memory beside inputs and output",
    "seconds": "Predicted time",
}
"""What is drawn over the length -> its title."""


@dataclass(frozen=True)
class AttentionRequest:
    """What the knobs say."""

    shape: AttentionShape
    blocks: Blocks
    gpu: str

    @property
    def key(self) -> tuple[Any, ...]:
        """The same as plain values, by which results are kept."""
        s = self.shape
        return (
            s.heads,
            s.kv_heads,
            s.d_head,
            s.d_value,
            s.batch,
            s.dtype,
            s.causal,
            s.direction,
            *self.blocks,
            self.gpu,
        )

    @property
    def command(self) -> str:
        """The same on the command line."""
        s = self.shape
        flags = " --causal" * s.causal + " --backward" * (s.direction == "backward")
        sizes = f"--seq {s.seq} --heads {s.heads} --kv-heads {s.kv_heads} --d-head {s.d_head}"
        sizes += f" --d-value {s.d_value}" * (s.d_value != s.d_head)
        return f"python -m calc attention {sizes} --batch {s.batch} --dtype {s.dtype}{flags} --gpu {self.gpu}"


def render(picked: picker.Picked | None) -> None:
    """Draw the page."""
    frame.header(
        "Attention",
        "Standard attention, which writes every score to memory, against FlashAttention, which keeps them on the chip.",
    )
    # The answer stands above what it answers, which is drawn first.
    answer, controls = st.container(), st.container()
    with frame.refusals("These sizes cannot be counted"):
        with controls:
            st.header("What is compared", anchor=False)
            request = _knobs(picked)
        saved.about(request.gpu, request.command)
        with answer:
            _compare(request)
        model = picked.spec.name if picked is not None and st.session_state.get("sizes") != "Own" else ""
        known.groups(LENGTHS, request.gpu, request.shape, model)
    known.table()


def _knobs(picked: picker.Picked | None) -> AttentionRequest:
    left, right = st.columns(2)
    source = left.segmented_control(
        "Sizes", ("Of the model", "Own"), default="Of the model", key="sizes", required=True, bind="query-params"
    )
    share("gpu", names := _gpus(), GPU)
    gpu = right.selectbox("GPU", names, index=names.index(GPU), key="gpu", bind="query-params")
    own = _own() if source == "Own" or picked is None else _of(picked)
    row = st.columns(2)
    lengths, batches = holding("seq", LENGTHS, LENGTHS[-1]), holding("batch", BATCHES, BATCHES[-1])
    share("seq", lengths, 2048)
    share("batch", batches, 1)
    seq = row[0].select_slider("Tokens", lengths, 2048, key="seq", bind="query-params")
    batch = row[1].select_slider("Sequences", batches, 1, key="batch", bind="query-params")
    with layout.fold("Direction, format, mask", "direction", "dtype", "causal", "masked"):
        row = st.columns(3, vertical_alignment="bottom")
    direction = row[0].segmented_control(
        "Direction", DIRECTIONS, default="forward", key="direction", required=True, bind="query-params",
        help="backward: forward, and then backward",
    )  # fmt: skip
    formats = [name for name in ("bf16", "fp16", "fp32") if name in load_device(gpu).known_peaks]
    forget_stale("dtype", formats)
    dtype = row[1].selectbox("Format", formats, key="dtype", bind="query-params")
    usual = own.pop("causal")
    causal = row[2].toggle(
        "Causal",
        usual,
        key="causal" if usual else "masked",  # or a decoder would keep what an encoder before it was set to
        bind="query-params",
        help="A query sees the keys up to its position",
    )
    shape = AttentionShape(
        **own,
        seq=seq,
        batch=batch,
        dtype=dtype,
        causal=causal,
        direction="backward" if direction == "backward" else "forward",
    )
    return AttentionRequest(shape, best_blocks(shape, on_chip(load_device(gpu))), gpu)


def _gpus() -> list[str]:
    """Those whose on-chip memory is known, and that PyTorch has kernels for."""
    every = (load_device(name) for name in device_names())
    return [each.name for each in every if each.sram is not None and not each.architecture.startswith("TPU")]


def _own() -> dict[str, Any]:
    row = st.columns(3)
    heads = row[0].select_slider("Query heads", HEADS, 32, key="heads", bind="query-params")
    shared = [count for count in HEADS if heads % count == 0]
    if st.session_state.get("kv_heads") not in shared:
        st.session_state.pop("kv_heads", None)
    kv_heads = row[1].select_slider("Key heads", shared, shared[-1], key="kv_heads", bind="query-params")
    d_head = row[2].select_slider(
        "Width of a head", (32, 64, 80, 96, 128, 192, 256), 128, key="width", bind="query-params"
    )
    return {"heads": heads, "kv_heads": kv_heads, "d_head": d_head, "causal": True}


def _of(picked: picker.Picked) -> dict[str, Any]:
    shape = shape_of(picked.spec)
    values = "" if shape.d_value == shape.d_head else f" Values are {shape.d_value} wide."
    heads = f"{shape.heads} query heads of {shape.d_head}, {shape.kv_heads} key heads."
    st.caption(f"{frame.verbatim(picked.spec.name)}: {heads}{values}")
    if notes := left_out(picked.spec):
        st.caption(f"⚠ Not counted here: {'; '.join(notes)}.")
    return {name: getattr(shape, name) for name in ("heads", "kv_heads", "d_head", "d_value", "causal")}


@cached
def _sweep(key: tuple[Any, ...], _request: AttentionRequest) -> list[Point]:
    return sweep(_request.shape, _request.blocks, LENGTHS, _request.gpu)


@cached
def _wins(key: tuple[Any, ...], _request: AttentionRequest) -> dict[str, tuple[int | None, float]]:
    """Need -> from which length on flash needs less, and how many times as much it needs at the longest."""
    shape = _request.shape
    ways = ("forward", "backward") if shape.direction == "backward" else ("forward",)
    counted = crossovers(shape, _request.blocks, [lambda cost: cost.traffic, lambda cost: cost.peak])
    every = (*counted, time_crossover(_request.gpu, shape, ways))
    return {name: (one.length, one.flash / one.standard) for name, one in zip(NEEDS_CROSSED, every, strict=True)}


NEEDS_CROSSED = ("traffic", "peak", "seconds")


def _compare(request: AttentionRequest) -> None:
    points = _sweep(request.key, request)
    with st.spinner("Looking for the lengths where flash starts to win"):
        wins = _wins(request.key, request)
    st.info(_sentence(points, request.shape.seq))
    _pictures(request, points, wins, ("traffic", "seconds"))
    _figures(request, points)
    _pictures(request, points, wins, ("peak", "flops"))
    st.caption(
        f"Tiles of {request.blocks.rows} × {request.blocks.columns}: the cheapest that fit on the chip of "
        f"{request.gpu}. Dots: this length. Dashed: from there on flash needs less at every longer length. Shaded: "
        "where 90 of 100 measured times are expected. Time is predicted, of PyTorch's `reference` and `sdpa_flash`."
    )
    st.markdown("\n".join(_won(need, *found) for need, found in wins.items()))
    frame.table([point._asdict() for point in points], "attention", shown=charts.SHOWN, folded="Table")
    frame.command(request.command)


def _figures(request: AttentionRequest, points: list[Point]) -> None:
    here = {point.attention: point for point in points if point.seq == request.shape.seq}
    labels = {"flops": "FLOPs, flash", "traffic": "Bytes moved", "peak": "Memory", "seconds": "Time"}
    with layout.cards():
        for need, label in labels.items():
            flash, standard = (getattr(here[name], need) for name in ("flash", "standard"))
            note = f"standard {charts.written(need, standard)}"
            frame.metric(label, charts.written(need, flash), f"{flash!r}, against {standard!r}", note)


def _pictures(
    request: AttentionRequest, points: list[Point], wins: dict[str, tuple[int | None, float]], needs: tuple[str, ...]
) -> None:
    for column, need in zip(st.columns(len(needs)), needs, strict=True):
        title = NEEDS[need]
        with column:
            st.markdown(f"**{title}**")
            length = wins.get(need, (None, 0.0))[0]
            drawn = charts.over_length(points, need, request.shape.seq, length)
            frame.chart(drawn, f"attention-{need}", alt=f"{title} of standard and flash over tokens")


def _sentence(points: list[Point], seq: int) -> str:
    """The answer, at the length that is asked about."""
    here = {point.attention: point for point in points if point.seq == seq}
    flash, standard = here["flash"], here["standard"]
    moved, taken = (
        [charts.written(need, getattr(each, need)) for each in (flash, standard)] for need in ("traffic", "seconds")
    )
    return (
        f"At {seq:,} tokens flash moves {moved[0]} where standard attention moves {moved[1]}, and takes {taken[0]} "
        f"where that takes {taken[1]}."
    )


def _won(need: str, length: int | None, ratio: float) -> str:
    title = NEEDS[need]
    if length is None:
        return f"- **{title}**: flash needs less at no length; at the longest {ratio:.2f}× as much"
    where = "at every length" if length == 1 else f"from {length:,} tokens on"
    return f"- **{title}**: flash needs less {where}; at the longest {_times(1 / ratio)} less"


def _times(factor: float) -> str:
    """A factor in three digits at most, and no powers of ten: 130,000×."""
    digits = max(0, 2 - int(f"{factor:e}".partition("e")[2]))
    return f"{float(f'{factor:.2g}'):,.{digits if factor < 10 else 0}f}×"
