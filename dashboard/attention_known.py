"""The parts of the page of attention with cases of their own: a decode step by grouping, and the notes' table."""

from __future__ import annotations

from typing import Any

import streamlit as st

from calc.charts import attention as charts
from calc.charts import axes
from calc.teaching.flash_attention_table import rows as published
from calc.time.attention_calls.attention_sweep import Decoded, decoding
from dashboard import frame
from dashboard.cache import cached
from dashboard.shared import share


@cached
def _decoded(context: int, batch: int, dtype: str, gpu: str) -> list[Decoded]:
    return decoding(context, batch, dtype, gpu)


def groups(lengths: tuple[int, ...], gpu: str, dtype: str, batch: int) -> None:
    """One decode step by how keys and values are kept, with as many tokens in the cache as a slider says."""
    st.header("Sharing keys in decoding", anchor=False)
    st.caption(
        "One decode step of one layer with 32 query heads of 128: as many key heads (MHA), 8 (GQA), one (MQA), or "
        "latents of 512 and 64 (MLA), expanded to keys and values or absorbed into the projections."
    )
    share("context", lengths, 8192)
    context = st.select_slider("Tokens in the cache", lengths, 8192, key="context", bind="query-params")
    with frame.refusals("No decode step"):
        found = _decoded(context, batch, dtype, gpu)
        parts = {"cached": ("Cached for a token", "B"), "traffic": ("Bytes moved", "B"), "seconds": ("Time", "s")}
        for column, (need, (title, unit)) in zip(st.columns(3), parts.items(), strict=True):
            with column:
                st.markdown(f"**{title}**")
                frame.chart(
                    charts.groups(found, need, axes.numbers(unit)), f"decoding-{need}", alt=f"{title}, by grouping"
                )
        columns = {"cached": st.column_config.Column("cached, a token")}
        frame.table([one._asdict() for one in found], "decoding", columns=columns, shown=charts.SHOWN)
        asked = f"--keys {context} --batch {batch} --dtype {dtype} --gpu {gpu}"
        frame.command(f"python -m calc attention --preset kv-grouping {asked}", part="grouping")


@cached
def _published() -> list[dict[str, Any]]:
    return [
        {
            "attention": row.attention,
            "quantity": row.quantity,
            "unit": row.unit,
            "printed": row.printed,
            "here": row.counted,
            "verdict": row.verdict or "–",
            "why": row.why,
        }
        for row in published()
    ]


def table() -> None:
    """The printed figures beside ours."""
    st.header("The table of the lecture notes", anchor=False)
    st.caption(
        "GPT-2 medium, forward and backward: batch 64, 16 heads of 64, 1,024 tokens, fp16 on an A100, as "
        "FlashAttention's paper prints it (Dao et al. 2022, figure 2) and the notes copy it; each beside our count."
    )
    frame.table(_published(), "flashattention-table", shown=dict.fromkeys(("printed", "here"), "{:,.4g}".format))
    frame.command("python -m calc attention --preset flashattention-table", part="notes")
