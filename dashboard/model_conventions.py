"""The part of the page Model that shows what others would report for the same run."""

from __future__ import annotations

from typing import Any

import streamlit as st

from calc import conventions
from calc.charts import axes
from calc.charts.bars import stacked
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.units import si
from dashboard import frame
from dashboard.cache import cached


@cached
def compared(spec: ModelSpec, query: Run) -> list[dict[str, Any]]:
    """What every convention reports for the same run."""
    rows = []
    for convention, count, ratio, reason in conventions.compare(spec, query):
        rows.append(
            {
                "convention": convention.name,
                "FLOP": None if count is None else float(count.total),
                "to torch": ratio,
                "products with weights": None if count is None else float(count.linear),
                "attention": None if count is None else float(count.attention),
                "what it counts": reason or convention.title,
                "does not see": " ".join(convention.caveats(spec)) if count is not None else "",
                "source": convention.source,
            }
        )
    return rows


def draw(spec: ModelSpec, query: Run, *, named: bool) -> None:
    """Draw it: bars, and the table with what each does not see. named: say of which model."""
    st.header("What others would report for the same run", anchor=False)
    if named:
        st.markdown(frame.verbatim(spec.name))
    rows = compared(spec, query)
    products = [
        {"convention": row["convention"], "product": product, "FLOP": row[column], "shown": si(row[column], "FLOP")}
        for row in rows
        for product, column in (("linear", "products with weights"), ("attention", "attention"))
        if row["FLOP"] is not None
    ]
    drawn = stacked(products, "convention", "product", "FLOP", axes.numbers("FLOP"), ("linear", "attention"))
    frame.chart(drawn, "conventions", alt="FLOPs of the same run under each convention")
    frame.table(
        rows,
        "conventions",
        columns={
            **frame.grouped("FLOP", "products with weights", "attention"),
            "to torch": st.column_config.NumberColumn(format="%.3f"),
        },
    )
