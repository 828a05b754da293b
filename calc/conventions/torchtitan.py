"""torchtitan's FLOPs a token: parameters that a token is multiplied with, and the attended part of the square."""

from __future__ import annotations

from calc.blocks.attention_inputs import head_sizes
from calc.conventions.base import Convention, decoder
from calc.quantities.flops import Flops
from calc.quantities.parameters import parameters, weights
from calc.sizes import Size, minimum
from calc.spec import ModelSpec
from calc.spec.run import Run


def _count(spec: ModelSpec, run: Run) -> Flops:
    """6 * N_active + 12 * (heads * d_head * attended tokens, summed over layers) a token."""
    tokens = run.batch * run.seq
    attended: Size = 0
    for group in decoder(spec).layers:
        n_heads, _, d_head, _ = head_sizes(group.attention, spec.d_model)
        window = group.attention.window
        keys = run.seq if window is None else minimum(run.seq, window)
        attended = attended + group.count * n_heads * d_head * keys
    return Flops(linear=6 * _multiplied(spec) * tokens, attention=12 * attended * tokens)


def _multiplied(spec: ModelSpec) -> Size:
    """Active parameters less the tables that are only looked up; a table that is also the head stays."""
    looked_up: Size = 0
    for _, weight, leaf in weights(spec):
        if leaf.op.kind == "gather" and not (decoder(spec).tied and weight.component == "embedding"):
            looked_up = looked_up + weight.elements * leaf.copies
    return sum(parameters(spec, active=True).values()) - looked_up


TORCHTITAN = Convention(
    name="torchtitan",
    title="torchtitan's MFU: 6 N without lookup tables, experts by top_k, windows seen",
    formulas={"training": "batch * seq * (6 * used + 12 * n_layers * n_heads * d_head * min(seq, window))"},
    letters={"used": "active parameters without tables that are only looked up"},
    source="pytorch/torchtitan, torchtitan/models/utils.py and pull requests 280 (2024) and 4300 (2026)",
    counts=(
        "Parameters a token is multiplied with, norms and biases among them: token and position tables are left out, "
        "unless the table is the head too. Causal scores are the full square, up to the window where there is one. "
        "No recomputation."
    ),
    count=_count,
    phases=("training",),
)
