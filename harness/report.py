"""Measured against predicted as one page of HTML, which holds its charts as SVG and needs no network and no script."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calc.charts import measured
from calc.charts.saving import picture
from calc.charts.vega import Chart
from calc.errors import printable
from calc.output.tables import Table
from calc.time.device.profile import Profile
from harness.compare import Comparison
from harness.record import Environment

MOST_ROWS = 500
"""Cases in the table; the worst of them."""
_WIDTH = 520
"""Pixels of a chart."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24;
  background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .15rem .7rem; text-align: left; border-bottom: 1px solid #e3e6ea; overflow-wrap: anywhere; }
td.number { text-align: right; white-space: nowrap; } figure { margin: 1rem 0; display: inline-block; }
figure svg { max-width: 100%; height: auto; } .note { color: #57606a; }
"""


def page(found: Comparison, tables: Sequence[Table], profiles: Iterable[Profile] = (), by_kind: bool = True) -> str:
    """The whole document. tables: of the comparison, as the command line shows them.
    by_kind: its groups are kinds of cases, which have colours of their own.

    Every text from results is escaped. Errors: Refused where the extra `charts` is not installed.
    """
    environments = {pair.run.environment.slug: pair.run.environment for pair in reversed(found.pairs)}
    parts = [
        "<h1>Measured against predicted</h1>",
        f"<p>{_summary(found)}</p>",
        *(_figure(chart, text) for chart, text in charts(found, by_kind)),
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


def charts(found: Comparison, by_kind: bool) -> list[tuple[Chart, str]]:
    """Each chart, with what it shows in words. by_kind: groups are kinds of cases, which have colours of their own."""
    made = [
        (
            measured.ratios(found.pairs, by_kind),
            f"Each case's measured time over its predicted one; dashed: equal, shaded: within {measured.BAND:.0%}.",
        ),
        (measured.errors(found.pairs, by_kind), "How many cases took how much longer (above 0) or shorter."),
    ]
    for group, device in dict.fromkeys((part.group, part.device) for part in found.parts):
        parts = [part for part in found.parts if (part.group, part.device) == (group, device)]
        made.append((measured.components(parts), f"Time by component: {printable(group)} on {printable(device)}."))
    return made


def _summary(found: Comparison) -> str:
    alls = [group for group in found.groups if group.name == "all"]
    counts = [
        f"{group.device}: {len(group.pairs):,} cases, MAPE {group.mape:.1%}, median {group.median_ape:.1%}"
        for group in alls
    ]
    return html.escape("; ".join(counts))


def _figure(chart: Chart, text: str) -> str:
    svg = picture(chart, "svg", _WIDTH).decode()
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
