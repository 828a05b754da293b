"""Lectures: what the notes print, each claim with a verdict; kinds of layers; what trainings cost in their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from calc.charts.colours import VERDICT_TINTS
from calc.teaching.claim import written
from calc.teaching.complexity import DECODINGS, LAYER_KINDS, Shape
from calc.teaching.lectures import CLAIMS
from calc.teaching.training_costs import training_costs
from calc.units import si
from dashboard import frame, layout, picker
from dashboard.cache import cached

VERDICTS = ("confirmed", "rounded", "wrong", "not reproducible here")
LENGTHS = tuple(2**power for power in range(4, 18))
COSTS: list[str] = ["printed", "predicted", "low", "high", "least"]
WIDTHS = (64, 128, 256, 512, 768, 1024, 2048, 4096, 8192, 16384)


def render(picked: picker.Picked | None) -> None:
    """Draw the page; it needs no model."""
    frame.header(
        "Lectures", "What the lecture notes print and claim, each beside the value computed here, with a verdict."
    )
    # The answer stands above what chooses among the claims, which is drawn first.
    answer, controls = st.container(), st.container()
    with controls:
        shown = _chosen(_checked())
    with answer:
        _claims(shown)
    _wrong(shown)
    frame.command("python -m calc lectures")
    with st.expander("Kinds of layers, and ways to choose tokens"):
        _complexity()
    with st.expander("Trainings on the hardware of their time"):
        _trainings()


@cached
def _checked() -> list[dict[str, Any]]:
    return [
        {
            "lecture": claim.lecture,
            "the notes say": claim.claim,
            "printed": claim.printed,
            "here": None if claim.value is None else claim.value(),
            "recorded": claim.recorded,
            "verdict": claim.verdict,
            "formula or reason": claim.why,
        }
        for claim in CLAIMS
    ]


def _chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Draw how many claims have which verdict, and what chooses among them; those that are chosen."""
    with layout.cards():
        for verdict, count in _counts(rows).items():
            frame.metric(verdict.capitalize(), f"{count}")
    left, right = st.columns(2)
    lectures = sorted({row["lecture"] for row in rows})
    which = left.pills("Lecture", lectures, selection_mode="multi", key="lecture", bind="query-params")
    verdicts = right.pills("Verdict", VERDICTS, selection_mode="multi", key="verdict", bind="query-params")
    return [
        row for row in rows if (not which or row["lecture"] in which) and (not verdicts or row["verdict"] in verdicts)
    ]


def _counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}


def _claims(shown: list[dict[str, Any]]) -> None:
    rows = _checked()
    counts = _counts(rows)
    right = counts["confirmed"] + counts["rounded"]
    st.info(f"Of {len(rows)} claims {right} hold, {counts['rounded']} of them rounded; {counts['wrong']} are wrong.")
    if not shown:
        frame.nothing_yet("No claim of these lectures has this verdict: choose another below.")
        return
    wide = {"the notes say": st.column_config.Column(width="large")}
    numbers: dict[str, Callable[..., str]] = dict.fromkeys(("printed", "here", "recorded"), written)
    frame.table(shown, "claims", columns=wide, shown=numbers, tinted={"verdict": VERDICT_TINTS}, height=400)


def _wrong(shown: list[dict[str, Any]]) -> None:
    for row in shown:
        if row["verdict"] == "wrong":
            with st.expander(f"Wrong in lecture {row['lecture']}: {frame.verbatim(row['the notes say'])}"):
                st.markdown(frame.verbatim(row["formula or reason"]))


def _complexity() -> None:
    st.caption(
        "What one layer costs to mix n tokens of width d, exactly and as an order of growth; kinds of attention "
        "share 8 n d² of projections, which are not in it. Path: the most layers or steps between two tokens."
    )
    left, right = st.columns(2)
    n = left.select_slider("n, tokens", LENGTHS, 1024, key="n", bind="query-params")
    d = right.select_slider("d, width", WIDTHS, 512, key="d", bind="query-params")
    shape = Shape(n, d, m=64)
    rows = [
        {
            "layer": kind.name,
            "FLOPs": kind.flops(shape),
            "order": f"O({kind.order})",
            "elements kept": kind.memory(shape),
            "kept, order": kind.memory_order,
            "steps": kind.steps(shape),
            "path": kind.path(shape),
            "path, order": kind.path_order,
            "source": kind.source,
        }
        for kind in LAYER_KINDS
    ]
    numbers = {"FLOPs": si, "elements kept": si, "steps": "{:,}".format, "path": "{:,}".format}
    frame.table(rows, "layers", shown=numbers)
    st.caption("Ways to choose 20 tokens out of 50,257 each, with 4 beams, by the continuations they look at:")
    ways = [
        {"decoding": way.name, "continuations, log10": way.log10(50_257, 20, 4), "order": f"O({way.order})"}
        for way in DECODINGS
    ]
    frame.table(ways, "decodings", shown={"continuations, log10": "10^{:.1f}".format})
    frame.command(f"python -m calc complexity --seq {n} --d-model {d}", part="layers")


@cached
def _costs() -> list[dict[str, Any]]:
    return [one._asdict() for one in training_costs()]


def _trainings() -> None:
    st.caption(
        "Printed costs beside those predicted for the same hardware, with the interval that 90 of 100 measured "
        "times are expected in. At least: the products alone at the datasheet's peak."
    )
    with frame.refusals("No prediction"):
        frame.table(_costs(), "trainings", shown=dict.fromkeys(COSTS, _cost), tinted={"verdict": VERDICT_TINTS})
    frame.command("python -m calc lectures --trainings", part="trainings")


def _cost(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
