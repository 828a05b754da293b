"""Counts of what really runs: every matrix product of the tree of ops, with causal scores counted in three ways."""

from __future__ import annotations

from collections.abc import Callable

from calc.conventions.base import Convention
from calc.errors import Refused
from calc.quantities.flops import Flops, forward, prefill, training
from calc.spec import Mla, ModelSpec
from calc.spec.load import Scores
from calc.spec.run import FLOPS_PHASES, Run

_COUNTS = (
    "Every product with a weight matrix and every score and weighted value, a multiply-accumulate as 2, logits at all "
    "positions but in prefill, a mixture of experts with exactly top_k experts a token. Not counted: lookups, norms, "
    "softmax, activations, biases, the optimizer."
)


def _formulas(pairs: str) -> dict[str, str]:
    """Of a plain decoder, with so many pairs of a query and a key in one sequence and head."""
    scores = f"4 * batch * n_layers * n_heads * d_head * {pairs}"
    return {
        "forward": f"2 * batch * seq * multiplied + {scores}",
        "prefill": "forward - 2 * batch * (seq - 1) * d_model * vocab_size",
        "training": "3 * forward",
        "training (selective)": f"3 * forward + {scores}",
        "training (full)": "4 * forward - 2 * batch * seq * d_model * vocab_size",
        "decode": "2 * batch * multiplied + 4 * batch * n_layers * n_heads * d_head * (context + 1)",
    }


_LETTERS = {"multiplied": "weight elements a token is multiplied with, the head among them"}


def absorbs(run: Run) -> bool:
    """Whether FLOPs of decoding are those of latents that are read as they are.

    A convention that is named counts what eager PyTorch executes, which expands them, unless the run says otherwise.
    """
    named = run.latent_reading is None and "convention" in run.model_fields_set
    return run.absorbs and not named


def caveats_of_reading(spec: ModelSpec, run: Run) -> tuple[str, ...]:
    """How latents are read, where that was left open and there are any: a sentence, or none."""
    latent = any(isinstance(group.mixer, Mla) for group in spec.layers)
    if run.phase != "decode" or run.latent_reading is not None or not latent:
        return ()
    if absorbs(run):
        return ("latents are absorbed, as engines decode; --latent-reading expanded counts what transformers runs",)
    return ("cached latents are expanded, as eager PyTorch does; --latent-reading absorbed counts what engines run",)


def _count(scores: Scores) -> Callable[[ModelSpec, Run], Flops]:
    def count(spec: ModelSpec, run: Run) -> Flops:
        if run.phase == "decode":
            # One query sees all cached keys and its own: its row of the mask hides nothing.
            return forward(spec, run.load(seq=1, context=run.context, decode=True, absorbed=absorbs(run)))
        if run.phase == "training":
            return training(spec, run.load(scores=scores), run.checkpointing)
        if run.phase == "forward":
            return forward(spec, run.load(scores=scores))
        if run.phase == "prefill":
            return prefill(spec, run.load(scores=scores))
        raise Refused("phase", f"one of {', '.join(FLOPS_PHASES)}", run.phase)

    return count


TORCH = Convention(
    name="torch",
    title="what eager PyTorch executes, causal attention as the full square",
    formulas={
        **_formulas("seq^2"),
        "training (full-early-stop)": "4 * forward - 2 * batch * seq * d_model * (vocab_size + n_layers * d_ff)",
    },
    letters=_LETTERS,
    source="torch.utils.flop_counter.FlopCounterMode (PyTorch 2.13, 2026) over eager attention",
    counts=f"{_COUNTS} Scores of hidden pairs are counted, since a dense product computes them.",
    count=_count("full"),
    phases=FLOPS_PHASES,
    any_model=True,
    checkpointing=("none", "selective", "selective-op", "full", "full-early-stop"),
)

CAUSAL_HALF = Convention(
    name="causal-half",
    title="as torch, with half the square of causal scores",
    formulas=_formulas("seq^2 / 2"),
    letters=_LETTERS,
    source="Megatron-Bridge performance summary (NVIDIA, 2025-2026); FlashAttention-2, section 4.1 (Dao 2023)",
    counts=f"{_COUNTS} A window of W leaves (seq^2 - (seq - W)^2) / 2 pairs.",
    count=_count("causal-half"),
    phases=FLOPS_PHASES,
    any_model=True,
    checkpointing=("none", "selective", "selective-op", "full"),
)

CAUSAL_EXACT = Convention(
    name="causal-exact",
    title="as torch, with exactly the causal scores that the mask keeps",
    formulas=_formulas("seq * (seq + 1) / 2"),
    letters=_LETTERS,
    source="the causal mask itself: token i sees i keys (Vaswani et al. 2017, section 3.2.3)",
    counts=f"{_COUNTS} A window of W hides (seq - W) * (seq - W + 1) / 2 pairs more.",
    count=_count("causal-exact"),
    phases=FLOPS_PHASES,
    any_model=True,
    checkpointing=("none", "selective", "selective-op", "full"),
)
