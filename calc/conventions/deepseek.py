"""DeepSeek LLM's model scale M: FLOPs a token without embeddings and with attention."""

from __future__ import annotations

from calc.conventions import caveats
from calc.conventions.base import Convention
from calc.quantities.flops import Flops
from calc.spec import ModelSpec
from calc.spec.run import Run


def _count(spec: ModelSpec, run: Run) -> Flops:
    """M = 72 * n_layers * d_model^2 + 12 * n_layers * d_model * seq a token; C = M * D."""
    tokens = run.batch * run.seq
    return Flops(
        linear=72 * spec.n_layers * spec.d_model**2 * tokens,
        attention=12 * spec.n_layers * spec.d_model * run.seq * tokens,
    )


DEEPSEEK = Convention(
    name="deepseek",
    title="DeepSeek LLM's non-embedding FLOPs a token, M",
    formulas={"training": "batch * seq * (72 * n_layers * d_model^2 + 12 * n_layers * d_model * seq)"},
    source="DeepSeek LLM, section 3.2, equation 2 and table 3 (DeepSeek-AI 2024, arXiv:2401.02954)",
    counts=(
        "Reads d_model, n_layers and tokens only: 12 * d_model^2 weights a layer whatever the block is made of. "
        "Scores are the full square. Left out: embeddings, the logits, recomputation."
    ),
    count=_count,
    phases=("training",),
    caveats=caveats.of_plain_layers(caveats.windows, caveats.factorised),
)
