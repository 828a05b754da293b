"""The lecture's rules: a transformer in four letters, d, L, V and the number of tokens n."""

from __future__ import annotations

from calc.conventions import caveats
from calc.conventions.base import Convention, decoder
from calc.quantities.flops import Flops
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.run import Run


def _params(spec: ModelSpec) -> dict[str, Size]:
    """Embedding and unembedding V * d each; a layer 4 * d^2 (key, query, value, output) and 2 * d * (4 * d)."""
    table, square = decoder(spec).vocab_size * spec.d_model, spec.n_layers * spec.d_model**2
    return {"embedding": table, "unembedding": table, "attention": 4 * square, "feed-forward": 8 * square}


def _count(spec: ModelSpec, run: Run) -> Flops:
    """Feed-forward 16 * d^2, projections 8 * d^2, mechanism 4 * n * d a layer and token; 2 * d * V for the logits.

    Training takes each product three times, with checkpointing four times; the index select stays one.
    """
    d_model, layers = spec.d_model, spec.n_layers
    tokens = run.tokens
    keys = run.context + 1 if run.phase == "decode" else run.seq
    times = {"none": 3, "full": 4}[run.checkpointing] if run.phase == "training" else 1
    return Flops(
        linear=times * tokens * (layers * 24 * d_model**2 + 2 * d_model * decoder(spec).vocab_size),
        attention=times * tokens * layers * 4 * keys * d_model,
        other=tokens * d_model,
    )


LECTURE = Convention(
    name="lecture",
    title="the lecture's back-of-the-envelope rule from d_model, n_layers, vocab_size and the tokens alone",
    formulas={
        "forward": "batch * seq * (d_model + n_layers * (16 * d_model^2 + 8 * d_model^2 + 4 * seq * d_model) "
        "+ 2 * d_model * vocab_size)",
        "training": "3 * forward - 2 * batch * seq * d_model",
        "training (full)": "4 * forward - 3 * batch * seq * d_model",
        "decode": "batch * (d_model + n_layers * (24 * d_model^2 + 4 * (context + 1) * d_model) "
        "+ 2 * d_model * vocab_size)",
        "params": "2 * vocab_size * d_model + 12 * n_layers * d_model^2",
    },
    source="lecture 1, Transformers and accounting: Number of parameters, FLOPs, FLOPs in training (2025)",
    counts=(
        "Reads d_model, n_layers, vocab_size and tokens only: a plain feed-forward block four times as wide, as many "
        "key and value heads as query heads, a head of its own. Counts the index select of the embedding as d_model a "
        "token (under other), in training too. With checkpointing everything is recomputed, the head too."
    ),
    count=_count,
    phases=("forward", "training", "decode"),
    checkpointing=("none", "full"),
    params=_params,
    caveats=caveats.of_plain_layers(caveats.windows, caveats.factorised),
    params_caveats=caveats.of_plain_layers(caveats.factorised, caveats.tied, caveats.positions),
)
