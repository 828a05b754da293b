"""Kaplan et al.'s rule: six FLOPs for each parameter that is not an embedding, and each token."""

from __future__ import annotations

from calc.conventions import caveats
from calc.conventions.base import Convention
from calc.quantities.flops import Flops
from calc.quantities.parameters import weights
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.run import Run


def _params(spec: ModelSpec) -> dict[str, Size]:
    """The layers' matrices by component: 2 * d_model * n_layers * (2 * n_heads * d_head + d_ff) for a plain model.

    Biases and norms are what the paper calls sub-leading and leaves out.
    """
    totals: dict[str, Size] = {}
    for _, weight, leaf in weights(spec):
        if leaf.layer is not None and leaf.op.kind == "linear" and len(weight.shape) == 2:
            component = leaf.component or weight.component
            totals[component] = totals.get(component, 0) + weight.elements * leaf.copies
    return totals


def _count(spec: ModelSpec, run: Run) -> Flops:
    return Flops(linear=6 * sum(_params(spec).values()) * run.batch * run.seq, attention=0)


KAPLAN = Convention(
    name="kaplan",
    title="Kaplan's 6 N, N without embeddings",
    formulas={
        "params": "2 * d_model * n_layers * (2 * n_heads * d_head + d_ff)",
        "training": "6 * params * batch * seq",
    },
    source="Scaling Laws for Neural Language Models, section 2.1 and table 1 (Kaplan et al. 2020, arXiv:2001.08361)",
    counts=(
        "Matrices of the layers. Left out: embeddings, positions, the logits, biases, norms, and the scores, which the "
        "paper drops where d_model is well above seq / 12."
    ),
    count=_count,
    phases=("training",),
    params=_params,
    caveats=caveats.report(caveats.experts_all_counted),
)
