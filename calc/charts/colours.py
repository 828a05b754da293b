"""One colour for each thing, on every page. All stand out from white and from near-black (3:1 or more), and those that
one legend may hold from each other."""

from __future__ import annotations

COLOURS = {
    # Components of a model (calc.trace.op.Component).
    "embedding": "#90603c",
    "positional": "#009cc0",
    "attention": "#2e86de",
    "mlp": "#e1712b",
    "router": "#c2549d",
    "routed_expert": "#c98000",
    "shared_expert": "#fc4884",
    "norm": "#6f8f3f",
    "lm_head": "#1a9e8f",
    "mtp": "#a05fd0",
    "ssm": "#3a9a4b",
    "adapter": "#786090",
    "vision": "#cc6c78",
    "audio": "#8810f8",
    "other": "#868e96",
    # Work by kind of product (calc.quantities.flops).
    "linear": "#e1712b",
    # Memory by term (calc.memory).
    "weights": "#4c72c4",
    "gradients": "#90603c",
    "optimizer": "#a05fd0",
    "activations": "#c98000",
    "logits": "#1a9e8f",
    "temporaries": "#868e96",
    "kv_cache": "#e43c90",
    # A step in time, beside forward, weights and optimizer.
    "backward": "#2e86de",
    "bubble": "#868e96",
    # Time beside the components.
    "loss": "#d6453d",
    "network": "#9c9000",
    "launch": "#868e96",
    # Kinds of measured cases (harness.cases).
    "matmul": "#e1712b",
    "pass": "#6f8f3f",
    "decode_attention": "#00919c",
    "layer": "#a05fd0",
    "forward": "#90603c",
    "prefill": "#a88400",
    "decode": "#e43c90",
    "training": "#d6453d",
    "collective": "#9c5478",
    "parallel_training": "#00a878",
    "scaled_matmul": "#8a12f1",
    "grouped_matmul": "#14ab0a",
    "exchange": "#f11ae1",
    # Both sides of a comparison.
    "predicted": "#868e96",
    "measured": "#2e86de",
    # Verdicts.
    "FASTER": "#2f9e62",
    "SAME": "#868e96",
    "SLOWER": "#d6453d",
    "fits": "#2f9e62",
    "does not fit": "#d6453d",
    "more": "#e1712b",
    "less": "#1a9e8f",
    "line": "#868e96",
}
SERIES = ("#2e86de", "#e1712b", "#3a9a4b", "#a05fd0", "#d6453d", "#1a9e8f", "#a88400", "#c2549d", "#868e96", "#90603c")
"""For lines that are no component: models, devices, laws."""


VERDICT_TINTS = {
    "confirmed": "#2f9e6255",
    "within": "#2f9e6255",
    "rounded": "#e0a80055",
    "wrong": "#d6453d66",
    "differs": "#d6453d66",
    "not reproducible here": "#868e9644",
}
"""Verdict on what somebody printed -> what is laid under it in a table, through which a light page and a dark one are
seen."""


def colour(name: str) -> str:
    """The colour of `name`; grey for what has none of its own."""
    return COLOURS.get(name, COLOURS["other"])


def text_colour(name: str) -> str:
    """White or black, whichever stands out more from the colour of a thing (WCAG 2.2, relative luminance)."""
    linear = []
    for at in (1, 3, 5):
        part = int(colour(name)[at : at + 2], 16) / 255
        linear.append(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"
