"""Charts of a loss over N and D: lines of equal loss, and a model among the optima of laws."""

from __future__ import annotations

from calc.charts.colours import colour
from calc.charts.extrapolated import beyond, pieces
from calc.charts.scales import FAINTER, INK, MARK, axis, dots, line, shades, together, values
from calc.charts.vega import Chart, channel, layer
from calc.errors import Refused
from calc.laws import DEFAULT, LAWS, find
from calc.laws.base import Law
from calc.optimum.lines import band, contours, optima
from calc.optimum.prediction import loss as predict

OWN, OTHERS = colour("measured"), colour("line")
"""Colours of the optima of the law that is asked, and of others."""


def loss_chart(law: str = DEFAULT, **inputs: float) -> Chart:
    """Lines of equal loss over N and D around what is asked for, with the law's frontier where it says what is optimal.

    Errors: as `calc.loss`; Refused for a loss that is not one of params and tokens.
    """
    prediction = predict(law, **inputs)
    if not {"params", "tokens"} <= set(inputs):
        raise Refused("--chart", "--params and --tokens, which its axes are", " and ".join(inputs))
    entry, n, d = find(law), prediction.inputs["params"], prediction.inputs["tokens"]
    lines = contours(entry, dict(prediction.inputs))
    losses = [row["loss"] for row in lines]
    x, y = axis("params", "N, parameters"), axis("tokens", "D, tokens")
    colour, _ = shades("loss", "loss", min(losses), max(losses))
    layers = [
        _equal(entry, lines, line(strokeWidth=1.4), x, y, colour),
        layer([{"params": n, "tokens": d}], dots(size=70, color=MARK), x=x, y=y),
    ]
    frontier = [row | {"extrapolated": beyond(entry, row)} for row in optima(entry, n, d)]
    if frontier:
        parts = {"opacity": FAINTER, "detail": channel("extrapolated", "nominal")}
        layers.append(layer(frontier, line(color=INK, strokeDash=[5, 3]), x=x, y=y, **parts))
    layers += _band(entry, n, d, x, y)
    fresh = " of fresh tokens" if "unique_tokens" in inputs else ""
    dashed = f", frontier{fresh} dashed" if frontier else ""
    title = f"{law}: lines of equal loss{dashed}, fainter where extrapolated, {prediction.loss:.4f} in red"
    return together(layers, title)


def plane_chart(law: str, params: float, tokens: float, **routing: float) -> Chart:
    """N on D as a point among the optima of every law (variants left out), and of this law lines of equal loss and the
    band of its optima, as far as it has them. routing: of a law of experts, as `calc.laws.Law.at` takes it.

    Errors: Refused for an unknown law.
    """
    entry = find(law).at(**routing)
    x, y = axis("params", "N, parameters"), axis("tokens", "D, tokens")
    layers = []
    layers += _band(entry, params, tokens, x, y)
    at = {"params": params, "tokens": tokens, **routing}
    known = any(each.gives == "loss" and set(each.takes) == set(at) for each in entry.equations)
    equal = contours(entry, at) if known else []
    if equal:
        losses = [row["loss"] for row in equal]
        colour, _ = shades("loss", f"loss, {law}", min(losses), max(losses))
        layers.append(_equal(entry, equal, line(strokeWidth=1), x, y, colour))
    mark = dots(size=160, color=MARK, shape="diamond", opacity=1)
    here = layer([{"params": params, "tokens": tokens}], mark, x=x, y=y, tooltip=values("params", "tokens"))
    return together([*layers, _every_laws_optima(entry, params, tokens, x, y), here], "")


def _band(law: Law, params: float, tokens: float, x: Chart, y: Chart) -> list[Chart]:
    """Between which tokens each size's optimum lies by the law's own uncertainty, where it is known."""
    wide = band(law, params, tokens)
    area = {"type": "area", "opacity": 0.18, "color": INK}
    tooltip = values("params", "tokens", "most")
    return [layer(wide, area, x=x, y=y, y2={"field": "most"}, tooltip=tooltip)] if wide else []


def _equal(law: Law, rows: list[dict[str, float]], mark: Chart, x: Chart, y: Chart, colour: Chart) -> Chart:
    """Lines of equal loss, in pieces that each lie within what the law was fitted on or beyond it."""
    tooltip = values("loss", "params", "tokens")
    parts = {"opacity": FAINTER, "detail": channel("piece", "nominal")}
    return layer(pieces(law, rows, "loss"), mark, x=x, y=y, color=colour, tooltip=tooltip, **parts)


def _every_laws_optima(own: Law, params: float, tokens: float, x: Chart, y: Chart) -> Chart:
    """The optima of every law that is no variant of another, grey; thicker and in colour those of `own`."""
    shown = {each.name: each for each in LAWS if each.frontier is not None and each.variant_of is None}
    shown[own.name] = own
    lines = [
        row | {"law": name, "extrapolated": beyond(each, row)}
        for name, each in shown.items()
        for row in optima(each, params, tokens)
    ]
    return layer(
        lines,
        line(strokeDash=[6, 3]),
        x=x,
        y=y,
        opacity=FAINTER,
        detail=[channel("law", "nominal"), channel("extrapolated", "nominal")],
        color={"condition": {"test": f"datum.law == '{own.name}'", "value": OWN}, "value": OTHERS},
        strokeWidth={"condition": {"test": f"datum.law == '{own.name}'", "value": 3.5}, "value": 1.3},
        tooltip=[channel("law", "nominal"), *values("params", "tokens")],
    )
