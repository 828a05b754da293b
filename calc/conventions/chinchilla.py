"""Hoffmann et al.'s two countings: products one by one, and 6 N D."""

from __future__ import annotations

from calc.blocks.attention_inputs import head_sizes
from calc.conventions import caveats
from calc.conventions.base import Convention, decoder
from calc.errors import Refused
from calc.quantities.flops import Flops
from calc.quantities.parameters import parameters
from calc.sizes import Size
from calc.spec import ModelSpec, Moe
from calc.spec.run import Run


def _detailed(spec: ModelSpec, run: Run) -> Flops:
    """A layer and token: 8 * d * h * k for the projections, 4 * d * d_ff for the dense block, 4 * seq * h * k for
    scores and values, 3 * h * seq for the softmax; backward twice the forward pass."""
    linear: Size = 0
    attention: Size = 0
    softmax: Size = 0
    for group in decoder(spec).layers:
        if isinstance(group.channel, Moe):
            raise Refused("convention", "a model with one dense block a layer for chinchilla", "a mixture of experts")
        d_ff = 4 * spec.d_model if group.channel.d_ff is None else group.channel.d_ff
        n_heads, _, d_head, _ = head_sizes(group.attention, spec.d_model)
        linear = linear + group.count * spec.d_model * (8 * n_heads * d_head + 4 * d_ff)
        attention = attention + group.count * 4 * run.seq * n_heads * d_head
        softmax = softmax + group.count * 3 * run.seq * n_heads
    tokens = run.batch * run.seq
    return Flops(linear, attention, softmax).scaled({"forward": 1, "training": 3}[run.phase] * tokens)


def _six_n_d(spec: ModelSpec, run: Run) -> Flops:
    return Flops(linear=6 * sum(parameters(spec).values()) * run.batch * run.seq, attention=0)


CHINCHILLA = Convention(
    name="chinchilla",
    title="Chinchilla's detailed count of the layers",
    formulas={
        "forward": "batch * seq * n_layers * (8 * d_model * n_heads * d_head + 4 * d_model * d_ff "
        "+ 4 * seq * n_heads * d_head + 3 * seq * n_heads)",
        "training": "3 * forward",
    },
    source="Training Compute-Optimal LLMs, appendix F and table A4 (Hoffmann et al. 2022, arXiv:2203.15556)",
    counts=(
        "Projections, scores, softmax (under other), weighted values and the dense block. Appendix F also lists "
        "2 * seq * vocab_size * d_model for the embeddings and for the logits, but its table A4 comes out only "
        "without them, so they are left out here."
    ),
    count=_detailed,
    phases=("forward", "training"),
    caveats=caveats.report(caveats.gated, caveats.grouped, caveats.windows, caveats.factorised),
)

CHINCHILLA_6ND = Convention(
    name="chinchilla-6nd",
    title="Chinchilla's other count, 6 N D",
    formulas={"training": "6 * params * batch * seq"},
    source="Training Compute-Optimal LLMs, table 3 and appendix F (Hoffmann et al. 2022, arXiv:2203.15556)",
    counts="N is every parameter, tied weights once; D is batch * seq. No attention term, no recomputation.",
    count=_six_n_d,
    phases=("training",),
    caveats=caveats.report(caveats.experts_all_counted),
)
