"""LLM Foundry's benchmark tables: two FLOPs a parameter and token, and full attention of width d_model."""

from __future__ import annotations

from calc.conventions import caveats
from calc.conventions.base import Convention
from calc.quantities.flops import Flops
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from calc.spec.run import Run


def _count(spec: ModelSpec, run: Run) -> Flops:
    """Forward 2 * N * tokens + 4 * L * d * seq^2 a sequence; training three times that, with checkpointing four."""
    tokens = run.batch * run.seq
    once = Flops(
        linear=2 * sum(parameters(spec).values()) * tokens,
        attention=4 * spec.n_layers * spec.d_model * run.seq * tokens,
    )
    if run.phase == "forward":
        return once
    return once.scaled({"none": 3, "full": 4}[run.checkpointing])


LLM_FOUNDRY = Convention(
    name="llm-foundry",
    title="LLM Foundry's MFU (none) and HFU (full checkpointing)",
    formulas={
        "forward": "batch * seq * (2 * params + 4 * n_layers * d_model * seq)",
        "training": "3 * forward",
        "training (full)": "4 * forward",
    },
    source="mosaicml/llm-foundry, scripts/train/benchmarking/README.md, MFU and HFU (2023-2024)",
    counts=(
        "N is every parameter, the position table too, whose rows its benchmarks set to seq. Attention is the full "
        "square, of width d_model. HFU takes the whole forward pass again, the head too."
    ),
    count=_count,
    phases=("forward", "training"),
    checkpointing=("none", "full"),
    caveats=caveats.report(caveats.experts_all_counted, caveats.heads, caveats.windows),
)
