"""One colour for each thing, on every page. All stand out from white and from near-black (3:1 or more)."""

from __future__ import annotations

COLOURS = {
    # Components of a model (calc.op.Component).
    "embedding": "#7a8fd6",
    "positional": "#9a7bc8",
    "attention": "#2e86de",
    "mlp": "#e1712b",
    "router": "#c2549d",
    "routed_expert": "#c98000",
    "shared_expert": "#b5651d",
    "norm": "#6f8f3f",
    "lm_head": "#1a9e8f",
    "mtp": "#a05fd0",
    "ssm": "#3a9a4b",
    "adapter": "#e0457b",
    "vision": "#00919c",
    "other": "#868e96",
    # Work by kind of product (calc.quantities.flops).
    "linear": "#e1712b",
    # Memory by term (calc.memory).
    "weights": "#4c72c4",
    "gradients": "#3a9a4b",
    "optimizer": "#a05fd0",
    "activations": "#c98000",
    "logits": "#1a9e8f",
    "temporaries": "#868e96",
    "kv_cache": "#d6453d",
    # Time beside the components.
    "loss": "#d6453d",
    "network": "#c2549d",
    "launch": "#868e96",
    # Kinds of measured cases (harness.cases).
    "matmul": "#e1712b",
    "pass": "#6f8f3f",
    "decode_attention": "#00919c",
    "layer": "#a05fd0",
    "forward": "#4c72c4",
    "prefill": "#c98000",
    "decode": "#1a9e8f",
    "training": "#d6453d",
    "collective": "#c2549d",
    "parallel_training": "#b5651d",
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
SERIES = ("#2e86de", "#e1712b", "#3a9a4b", "#a05fd0", "#d6453d", "#1a9e8f", "#c98000", "#c2549d", "#868e96", "#7a8fd6")
"""For lines that are no component: models, devices, laws."""


def colour(name: str) -> str:
    """The colour of `name`; grey for what has none of its own."""
    return COLOURS.get(name, COLOURS["other"])
