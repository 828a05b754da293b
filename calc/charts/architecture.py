"""A model as a diagram: the residual stream from top to bottom, the branches that leave it and come back, each kind of
layer once with how often it stands, and the order of the kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calc.ask.anatomy import Block, Frame
from calc.charts import colours, vega
from calc.units import si

ROW = 30
"""Pixels of a block with the gap to the next."""
STREAM, LEFT, RIGHT = 3.0, 9.0, 99.0
"""Where the stream is drawn, and where blocks of a branch begin and end, of a width of 100."""
PICKED = "block"
"""The name of what is picked by a click: its field `path` is that of the block."""
MOST_NUMBERS = 400
"""Layers whose order is drawn."""


def diagram(frames: Sequence[Frame]) -> vega.Chart:
    """The diagram of the frames of `calc.ask.anatomy`."""
    drawn = _Drawn()
    stacks = dict.fromkeys(frame.stack for frame in frames)
    for stack in stacks:
        own = [frame for frame in frames if frame.stack == stack]
        if len(stacks) > 1:
            drawn.heading(stack or "the model itself")
        kinds = [frame for frame in own if frame.path]
        if len(kinds) > 1:
            drawn.pattern(kinds)
        first = drawn.row
        for frame in own:
            several = frame in kinds and len(kinds) > 1
            drawn.frame(frame, colours.SERIES[kinds.index(frame) % len(colours.SERIES)] if several else "")
        drawn.lines.append({"x": STREAM, "y": first - 0.5, "x2": STREAM, "y2": drawn.row - 0.5})
    return drawn.chart()


class _Drawn:
    """What is drawn so far, as rows of its layers. row: the next free one, from 0 at the top."""

    def __init__(self) -> None:
        self.row: float = 0
        self.lines: list[dict[str, Any]] = []
        self.frames: list[dict[str, Any]] = []
        self.blocks: list[dict[str, Any]] = []
        self.sums: list[dict[str, Any]] = []
        self.words: list[dict[str, Any]] = []
        self.cells: list[dict[str, Any]] = []

    def heading(self, text: str) -> None:
        self.words.append({"x": 0.5, "y": self.row, "text": text})
        self.row += 1

    def pattern(self, kinds: Sequence[Frame]) -> None:
        """The order of the kinds: a cell a layer."""
        order = sorted((number, place) for place, kind in enumerate(kinds) for number in kind.numbers)[:MOST_NUMBERS]
        wide = 100 / max(len(order), 1)
        for at, (number, place) in enumerate(order):
            ends = {"x": at * wide, "x2": (at + 0.88) * wide, "y": self.row - 0.4, "y2": self.row + 0.35}
            colour = colours.SERIES[place % len(colours.SERIES)]
            self.cells.append({**ends, "layer": f"{number}", "kind": _named(kinds[place]), "colour": colour})
        self.row += 1

    def frame(self, frame: Frame, colour: str) -> None:
        """A kind of layer with its name and number ahead of its blocks, or blocks alone."""
        first = self.row
        if frame.path:
            one = sum(block.parameters for block in frame.blocks)
            words = f"{_named(frame)} × {frame.count:,}, each {si(one)} parameters"
            self.words.append({"x": LEFT + 2 * bool(colour), "y": self.row, "text": words})
            if colour:
                swatch = {"x": LEFT - 1, "x2": LEFT + 1, "y": self.row - 0.3, "y2": self.row + 0.3}
                self.cells.append({**swatch, "layer": f"{frame.count:,}", "kind": _named(frame), "colour": colour})
            self.row += 1
        for block, later in zip(frame.blocks, (*frame.blocks[1:], None), strict=True):
            self.block(block, goes_on=later is not None and later.follows and block.branch)
        if frame.path:
            self.frames.append({"x": 0, "x2": 100, "y": first - 0.48, "y2": self.row - 0.52})

    def block(self, block: Block, goes_on: bool) -> None:
        """A block, with the line by which its branch leaves the stream; or the sum in which a branch comes back."""
        y = self.row
        if block.adds:
            y -= 0.22
            self.sums.append({"x": STREAM, "y": y, "text": "+", "block": block.name})
            self.lines.append({"x": STREAM, "y": y, "x2": LEFT + 4, "y2": y})
            self.lines.append({"x": LEFT + 4, "y": y, "x2": LEFT + 4, "y2": y - 0.38})
            self.row += 0.55
            return
        x = LEFT if block.branch else 0.7
        if block.branch and block.leaves:
            self.lines.append({"x": STREAM, "y": y, "x2": LEFT, "y2": y})
        if goes_on:
            self.lines.append({"x": LEFT + 4, "y": y + 0.4, "x2": LEFT + 4, "y2": y + 0.6})
        self.blocks.append(
            {
                "x": x,
                "x2": RIGHT,
                "y": y - 0.4,
                "y2": y + 0.4,
                "at": x + (1.2 if block.branch else STREAM),
                "middle": y,
                "block": block.name.replace("_", " "),
                "path": block.path,
                "component": block.component,
                "shape": block.shape,
                "matrices": block.shapes or "none",
                "parameters": f"{block.parameters:,}" + _visited(block),
                "work": si(block.flops, "FLOP"),
                "size": si(block.parameters) if block.parameters else "–",
                "says": _size(block),
                "nothing": "",
            }
        )
        self.row += 1

    def chart(self) -> vega.Chart:
        x = {"scale": {"domain": [0, 100]}, "axis": None}
        y = {"scale": {"domain": [-0.6, self.row - 0.4], "reverse": True, "nice": False}, "axis": None}
        place: dict[str, Any] = {
            "x": vega.channel("x", "quantitative", **x),
            "y": vega.channel("y", "quantitative", **y),
        }
        ends = {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
        small = {"type": "text", "baseline": "middle"}
        at, middle = vega.channel("at", "quantitative", **x), vega.channel("middle", "quantitative", **y)
        right, centre = ({"datum": n, "type": "quantitative", **x} for n in (RIGHT - 1, 55))
        of_component = vega.colour("component", (row["component"] for row in self.blocks)) | {"legend": None}
        tooltip = vega.tooltip("block", "shape", "matrices", "parameters", work="FLOPs")
        body = vega.layer(
            self.blocks,
            {"type": "rect", "cornerRadius": 4, "fillOpacity": 0.18, "strokeWidth": 1.5, "cursor": "pointer"},
            **place, **ends, color=of_component, stroke=of_component, tooltip=tooltip,
        )  # fmt: skip
        body["params"] = [{"name": PICKED, "select": {"type": "point", "fields": ["path"], "on": "click"}}]
        shape = vega.by_width("shape", "nothing")
        label = vega.by_width("says", "size")
        cell = vega.channel("colour", "nominal", scale=None)
        frame = {"type": "rect", "fillOpacity": 0, "stroke": GREY, "cornerRadius": 6}
        ring = {"type": "point", "size": 240, "fill": "white", "stroke": GREY, "opacity": 1}
        layers = [
            vega.layer(self.frames, frame, **place, **ends),
            vega.layer(self.cells, "rect", **place, **ends, color=cell, tooltip=vega.tooltip("layer", "kind")),
            vega.layer(self.lines, {"type": "rule", "strokeWidth": 2, "color": GREY}, **place, **ends),
            vega.layer(self.sums, ring, **place),
            vega.layer(self.sums, {**small, "color": "#333333", "fontSize": 15}, **place, text={"field": "text"}),
            vega.layer(self.words, {**small, "align": "left", "fontWeight": "bold"}, **place, text={"field": "text"}),
            vega.layer(self.blocks, {**small, "align": "left"}, x=at, y=middle, text={"field": "block"}),
            vega.layer(self.blocks, {**small, "align": "center"}, x=centre, y=middle, text=shape),
            vega.layer(self.blocks, {**small, "align": "right"}, x=right, y=middle, text=label),
            body,  # last, since clicks go to what is drawn last
        ]
        # Marks of nothing are pictures without a name to those who hear the page.
        there = [layer for layer in layers if layer["data"]["values"]]
        return {**vega.chart(*there, height=int(ROW * (self.row + 0.2))), "config": {"view": {"stroke": None}}}


GREY = colours.colour("line")


def _named(frame: Frame) -> str:
    """`layers`, or the group of a kind of them: `mamba layers`."""
    last = frame.path.rpartition(".")[2].strip("{}")
    return f"{last} layers" if last else "layers"


def _visited(block: Block) -> str:
    return f", {block.active:,} a token" if block.active != block.parameters else ""


def _size(block: Block) -> str:
    """The sizes of a block that are not nothing."""
    visited = f" ({si(block.active)} a token)" if block.active != block.parameters else ""
    sizes = [si(block.parameters) + visited] * bool(block.parameters)
    return " · ".join([*sizes, *[si(block.flops, "FLOP")] * bool(block.flops)])
