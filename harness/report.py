"""Measured against predicted as one page of HTML, which holds its charts as SVG and needs no network and no script."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calc.charts import altair
from calc.cli.output import Table
from calc.errors import printable
from calc.predict.profile import Profile
from harness.compare import Comparison, Pair, Part
from harness.record import Environment

MOST_ROWS = 500
"""Cases in the table; the worst of them."""
BAND = 0.1
"""Half width of the band around y = x."""
_WIDTH, _HEIGHT = 440, 340
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24;
  background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .15rem .7rem; text-align: left; border-bottom: 1px solid #e3e6ea; overflow-wrap: anywhere; }
td.number { text-align: right; white-space: nowrap; } figure { margin: 1rem 0; display: inline-block; }
figure svg { max-width: 100%; height: auto; } .note { color: #57606a; }
"""


def page(found: Comparison, tables: Sequence[Table], profiles: Iterable[Profile] = ()) -> str:
    """The whole document. tables: of the comparison, as the command line shows them.

    Every text from results is escaped. Errors: Refused where the extra `charts` is not installed.
    """
    environments = {pair.run.environment.slug: pair.run.environment for pair in reversed(found.pairs)}
    parts = [
        "<h1>Measured against predicted</h1>",
        f"<p>{_summary(found)}</p>",
        *(_figure(chart, text) for chart, text in charts(found)),
        *map(_table, tables),
        *(_environment(each) for _, each in sorted(environments.items())),
        *(_profile(each) for each in profiles),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>Measured against predicted</title><style>{_STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def charts(found: Comparison) -> list[tuple[Any, str]]:
    """Each chart as an altair spec, with what it shows in words."""
    alt = altair()
    rows = [_row(pair) for pair in found.pairs]
    made = [
        (_scatter(alt, rows), "Each case's measured time over its predicted one; dashed: equal, shaded: within 10 %."),
        (_histogram(alt, rows), "How many cases took how much longer (above 0) or shorter than predicted."),
    ]
    if found.parts:
        made.append((_components(alt, found.parts), "Time by component, summed over the cases that were taken apart."))
    return made


def _summary(found: Comparison) -> str:
    alls = [group for group in found.groups if group.name == "all"]
    said = [
        f"{group.device}: {len(group.pairs):,} cases, MAPE {group.mape:.1%}, median {group.median_ape:.1%}"
        for group in alls
    ]
    return html.escape("; ".join(said))


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "predicted": pair.predicted,
        "measured": pair.measured,
        "error": min(max(pair.ratio - 1, -1.0), 1.0),
        "group": printable(pair.group),
        "device": pair.run.environment.slug,
    }


def _scatter(alt: Any, rows: list[dict[str, Any]]) -> Any:
    values = [row[name] for row in rows for name in ("predicted", "measured")]
    low, high = min(values) / 1.5, max(values) * 1.5
    line = [
        {"predicted": x, "measured": x, "least": x * (1 - BAND), "most": x * (1 + BAND)}
        for x in (low, (low * high) ** 0.5, high)
    ]
    scale = alt.Scale(type="log", domain=[low, high], nice=False, clamp=True)
    axis = alt.Axis(format="~s")
    x = alt.X("predicted:Q", scale=scale, axis=axis, title="predicted, seconds")
    y = alt.Y("measured:Q", scale=scale, axis=axis, title="measured, seconds")
    colour = alt.Color("group:N", title=None)
    shape = alt.Shape("device:N", title=None)
    base = alt.Chart(alt.Data(values=line))
    return alt.layer(
        base.mark_area(opacity=0.15, color="gray").encode(x=x, y=alt.Y("least:Q", scale=scale), y2="most:Q"),
        base.mark_line(strokeDash=[5, 3], color="black", strokeWidth=1).encode(x=x, y=y),
        alt.Chart(alt.Data(values=rows)).mark_point(size=40, opacity=0.8).encode(x=x, y=y, color=colour, shape=shape),
    ).properties(width=_WIDTH, height=_HEIGHT, title="measured against predicted")


def _histogram(alt: Any, rows: list[dict[str, Any]]) -> Any:
    bins = alt.Bin(step=0.05, extent=[-1.0, 1.0])
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("error:Q", bin=bins, axis=alt.Axis(format="+.0%"), title="measured / predicted - 1"),
            y=alt.Y("count():Q", title="cases"),
            color=alt.Color("group:N", title=None),
        )
        .properties(width=_WIDTH, height=_HEIGHT, title="errors")
    )


def _components(alt: Any, parts: Sequence[Part]) -> Any:
    rows = [
        {"group": printable(part.group), "component": printable(part.component), "which": which, "seconds": seconds}
        for part in parts
        for which, seconds in (("predicted", part.predicted), ("measured", part.measured))
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="seconds"),
            y=alt.Y("which:N", title=None, sort=["predicted", "measured"]),
            color=alt.Color("component:N", title=None),
            row=alt.Row("group:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
        )
        .properties(width=_WIDTH, height=48, title="by component")
        .resolve_scale(x="independent")
    )


def _figure(chart: Any, text: str) -> str:
    import vl_convert

    svg = vl_convert.vegalite_to_svg(chart.to_json())
    # Names of formats, which a page of HTML does not need, and which read like addresses.
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    caption = html.escape(text)
    return f'<figure role="img" aria-label="{caption}">{svg}<figcaption class="note">{caption}</figcaption></figure>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows[:MOST_ROWS])
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    title = f"<h2>{html.escape(table.title)}</h2>" if table.title else ""
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}"


def _cell(text: str) -> str:
    number = re.fullmatch(r"[-+]?[\d,.]+(e[-+]?\d+)?%?( [mµn]?s)?", text) is not None
    return f"<td{' class=number' if number else ''}>{html.escape(text)}</td>"


def _environment(found: Environment) -> str:
    return _pairs(f"environment: {found.slug}", found.model_dump(exclude_none=True))


def _profile(found: Profile) -> str:
    fits = {
        name: f"MAPE {fit.mape:.1%}, median {fit.median_ape:.1%}, {fit.points:,} points, {fit.how}"
        for name, fit in found.fits.items()
    }
    return _pairs(f"profile: {found.name} ({found.provenance.made})", fits)


def _pairs(title: str, values: Mapping[str, Any]) -> str:
    rows = [(printable(name), printable(str(value))) for name, value in values.items()]
    return _table(Table(("", ""), rows, printable(title)))
