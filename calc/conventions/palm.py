"""PaLM's model FLOPs: six a parameter and token, and the attention products beside them."""

from __future__ import annotations

from calc.blocks.attention_inputs import head_sizes
from calc.conventions import caveats
from calc.conventions.base import Convention, decoder
from calc.quantities.flops import Flops
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from calc.spec.run import Run


def _count(spec: ModelSpec, run: Run) -> Flops:
    """6 * N + 12 * L * H * Q * T a token, N every parameter of the model."""
    tokens = run.batch * run.seq
    heads = 0
    for group in decoder(spec).layers:
        n_heads, _, d_head, _ = head_sizes(group.attention, spec.d_model)
        heads = heads + group.count * n_heads * d_head
    return Flops(linear=6 * sum(parameters(spec).values()) * tokens, attention=12 * heads * run.seq * tokens)


PALM = Convention(
    name="palm",
    title="PaLM's model FLOPs: 6 N and the full attention square",
    formulas={"training": "batch * seq * (6 * params + 12 * n_layers * n_heads * d_head * seq)"},
    source="PaLM, appendix B (Chowdhery et al. 2022, arXiv:2204.02311)",
    counts="N is every parameter, tied weights once, lookup tables and norms too. No recomputation, no causal saving.",
    count=_count,
    phases=("training",),
    caveats=caveats.report(caveats.experts_all_counted, caveats.windows),
)
