"""Megatron-LM's closed formula for a GPT with d_ff = 4 * d_model, and its recomputation factors."""

from __future__ import annotations

from calc.conventions import caveats
from calc.conventions.base import Convention, decoder
from calc.quantities.flops import Flops
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.run import Run


def _params(spec: ModelSpec) -> dict[str, Size]:
    """12 * l * h^2 * (1 + 13 / (12 * h) + (V + s) / (12 * l * h)), s the rows of the position table.

    13 * l * h are biases, 4 of attention and 5 of the feed-forward block, and the two norms' 4.
    """
    d_model, model = spec.d_model, decoder(spec)
    return {
        "embedding": model.vocab_size * d_model,
        "positional": model.n_positions * d_model,
        "attention": spec.n_layers * (4 * d_model**2 + 4 * d_model),
        "feed-forward": spec.n_layers * (8 * d_model**2 + 5 * d_model),
        "norm": spec.n_layers * 4 * d_model,
    }


def _count(spec: ModelSpec, run: Run) -> Flops:
    """Forward 24 * l * h^2 + 4 * l * s * h in the layers and 2 * h * V for the logits, a token.

    Training takes each three times. Full recomputation repeats the layers and leaves the logits at three. Selective
    takes the scores twice as often as none, as the paper's s / (3 * h) says and its published utilization needs,
    though running them once more would be four times in place of three.
    """
    tokens = run.batch * run.seq
    layers = tokens * 24 * spec.n_layers * spec.d_model**2
    scores = tokens * 4 * spec.n_layers * run.seq * spec.d_model
    logits = tokens * 2 * spec.d_model * decoder(spec).vocab_size
    if run.phase == "forward":
        return Flops(layers + logits, scores)
    times = {"none": (3, 3), "selective": (3, 6), "full": (4, 4)}[run.checkpointing]
    return Flops(times[0] * layers + 3 * logits, times[1] * scores)


MEGATRON = Convention(
    name="megatron",
    title="Megatron-LM's closed formula for a GPT",
    formulas={
        "forward": "24 * batch * seq * n_layers * d_model^2 * (1 + seq / (6 * d_model) "
        "+ vocab_size / (12 * n_layers * d_model))",
        "training": "3 * forward",
        "training (selective)": "72 * batch * seq * n_layers * d_model^2 * (1 + seq / (3 * d_model) "
        "+ vocab_size / (12 * n_layers * d_model))",
        "training (full)": "96 * batch * seq * n_layers * d_model^2 * (1 + seq / (6 * d_model) "
        "+ vocab_size / (16 * n_layers * d_model))",
        "params": "12 * n_layers * d_model^2 + 13 * n_layers * d_model + (vocab_size + n_positions) * d_model",
    },
    source=(
        "Efficient Large-Scale Language Model Training on GPU Clusters, equations 2 and 3 (Narayanan et al. 2021, "
        "arXiv:2104.04473); Reducing Activation Recomputation, appendix A (Korthikanti et al. 2022, arXiv:2205.05198)"
    ),
    counts=(
        "Reads d_model, n_layers, vocab_size and tokens only: a plain feed-forward block four times as wide, as many "
        "key and value heads as query heads. Scores are the full square. Full recomputation is each layer once more, "
        "the logits not."
    ),
    count=_count,
    phases=("forward", "training"),
    checkpointing=("none", "selective", "full"),
    params=_params,
    caveats=caveats.of_plain_layers(caveats.windows, caveats.factorised),
    params_caveats=caveats.of_plain_layers(caveats.factorised, caveats.untied),
)
