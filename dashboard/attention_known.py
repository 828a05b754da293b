"""The parts of the page of attention with cases of their own: a decode step by grouping, and the notes' table."""

from __future__ import annotations

from typing import Any

import streamlit as st

from calc.attention import AttentionShape
from calc.attention.latent import sharing
from calc.charts import attention as charts
from calc.charts import axes
from calc.teaching.flash_attention_table import rows as published
from calc.time.attention_calls.attention_sweep import Decoded, decoding
from dashboard import frame, saved
from dashboard.cache import cached
from dashboard.shared import share


@cached
def _decoded(key: tuple[Any, ...], _step: AttentionShape, gpu: str) -> list[Decoded]:
    return decoding(_step, gpu)


def groups(lengths: tuple[int, ...], gpu: str, shape: AttentionShape, model: str) -> None:
    """One decode step by how keys and values are kept, with as many tokens in the cache as a slider says.

    shape: whose heads share keys. model: what has them; empty where they are the visitor's own.
    """
    st.header("Sharing keys in decoding", anchor=False)
    whose = f"{frame.verbatim(model)} has {shape.kv_heads}. " if model else ""
    st.caption(
        f"One decode step of one layer with {shape.heads} query heads of {shape.d_head}, were they to share keys "
        f"otherwise: as many key heads (MHA), fewer (GQA), one (MQA), or latents of 512 and 64 (MLA), expanded to keys "
        f"and values or absorbed into the projections. {whose}"
    )
    share("context", lengths, 8192)
    context = st.select_slider("Tokens in the cache", lengths, 8192, key="context", bind="query-params")
    with frame.refusals("No decode step"):
        sizes = {name: getattr(shape, name) for name in ("batch", "heads", "kv_heads", "d_head", "d_value", "dtype")}
        found = _decoded((context, *sizes.values()), AttentionShape(**sizes, keys=context), gpu)
        if model:
            st.success(_saved(found, shape, model))
        parts = {"cached": ("Cached for a token", "B"), "traffic": ("Bytes moved", "B"), "seconds": ("Time", "s")}
        options = f"--heads {shape.heads} --kv-heads {shape.kv_heads} --d-head {shape.d_head}"
        options += f" --d-value {shape.d_value}" * (shape.d_value != shape.d_head)
        options += f" --keys {context} --batch {shape.batch} --dtype {shape.dtype} --gpu {gpu}"
        command = f"python -m calc attention --preset kv-grouping {options}"
        saved.about(gpu, command)
        for column, (need, (title, unit)) in zip(st.columns(3), parts.items(), strict=True):
            with column:
                st.markdown(f"**{title}**")
                frame.chart(
                    charts.groups(found, need, axes.numbers(unit)), f"decoding-{need}", alt=f"{title}, by grouping"
                )
        columns = {"cached": st.column_config.Column("cached, a token")}
        frame.table([one._asdict() for one in found], "decoding", columns=columns, shown=charts.SHOWN)
        frame.command(command, part="grouping")


def _saved(found: list[Decoded], shape: AttentionShape, model: str) -> str:
    """What the model's own sharing of keys saves, in a sentence."""
    every, own = found[0], next(one for one in found if one.name == sharing(shape.heads, shape.kv_heads))
    named = frame.verbatim(model)
    if own is every:
        return f"{named} shares no keys: each of its {shape.heads} query heads has its own."
    fewer = every.cached / own.cached
    faster = "" if not (own.seconds and every.seconds) else f" and a step {every.seconds / own.seconds:.2g} × as fast"
    return f"{named} ({own.name}) keeps {fewer:.3g} × less for a token than with as many key heads{faster}."


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
