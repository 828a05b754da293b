"""What equations of laws take and give: each quantity with its symbol and unit, and what numbers it can be."""

from __future__ import annotations

from typing import NamedTuple

from calc.errors import Refused
from calc.laws.arithmetic import real
from calc.sizes import Size


class Variable(NamedTuple):
    """A quantity that equations take or give; `letter` is its symbol in formulas."""

    name: str
    letter: str
    unit: str
    meaning: str


VARIABLES = {
    variable.name: variable
    for variable in (
        Variable("params", "N", "parameters", "size of the model; which weights count differs by law"),
        Variable("tokens", "D", "tokens", "tokens trained on"),
        Variable("compute", "C", "FLOP", "FLOPs of training"),
        Variable("compute_min", "C_min", "FLOP", "FLOPs of training at a batch far below the critical one"),
        Variable("compute_naive", "C_naive", "FLOP", "FLOPs of training at one batch, 524,288 tokens, for all sizes"),
        Variable("steps_min", "S_min", "steps", "optimizer steps at a batch far above the critical one"),
        Variable("loss", "L", "nats/token", "cross-entropy on held-out text"),
        Variable("batch_tokens", "B_t", "tokens", "tokens in one batch"),
        Variable("learning_rate", "eta", "", "peak learning rate"),
        Variable("known_rate", "eta_1", "", "the best peak learning rate at another number of tokens"),
        Variable("known_tokens", "D_1", "tokens", "tokens at which that rate is best"),
        Variable("error", "Err", "", "share of questions answered wrongly, over a set of benchmarks"),
        Variable("normalized_loss", "L_u", "nats/token", "cross-entropy less that of a unigram model"),
        Variable("flops_per_token", "M", "FLOP/token", "FLOPs of training for one token"),
        Variable("epochs", "epochs", "", "how often tokens are read"),
        Variable("unique_tokens", "U", "tokens", "tokens that differ; the rest of D repeats them"),
        Variable("effective_tokens", "D_eff", "tokens", "fresh tokens that repeated ones are worth"),
        Variable("effective_params", "N_eff", "parameters", "parameters that the given ones are worth"),
        Variable("inference_tokens", "D_inf", "tokens", "tokens read and written once the model is in use"),
        Variable("experts", "n_e", "experts", "routed experts in a layer, over those that a token visits"),
        Variable("effective_experts", "E_hat", "experts", "experts as far as they lower the loss"),
        Variable("granularity", "G", "", "how many times smaller an expert is than the MLP of a dense model"),
        Variable("sparsity", "S", "", "share of the routed experts that a token does not visit"),
        Variable("bits_weights", "P_w", "bits", "bits of a weight in training"),
        Variable("bits_activations", "P_a", "bits", "bits of an activation in training"),
        Variable("bits_cache", "P_kv", "bits", "bits of a key or value in training"),
        Variable("bits_post", "P_post", "bits", "bits of a weight that was rounded after training"),
        Variable("vocab_params", "N_v", "parameters", "entries of the vocabulary times d_model"),
        Variable("characters", "H", "characters", "text that is trained on"),
        Variable("params_total", "N_T", "parameters", "size of the model with its embeddings"),
        Variable("tokens_per_param", "D/N", "tokens", "tokens of training for each parameter"),
    )
}
_BITS = ("bits_weights", "bits_activations", "bits_cache", "bits_post")
ENDS = {"experts": (1, 1e6), "granularity": (1, 1e6), "sparsity": (0, 1 - 1e-9), **dict.fromkeys(_BITS, (1, 64))}
"""Least and most of experts and of bits; beyond them equations give numbers that mean nothing."""


def quantity(field: str, name: str, value: Size) -> Size:
    """`value` as a number of the variable `name`. Errors: Refused as `real`, and beyond ENDS."""
    number = real(field, value, zero=name == "sparsity")
    if name in ENDS and isinstance(number, float):
        least, most = ENDS[name]
        if not least <= number <= most:
            raise Refused(field, f"from {least} to {most:g}", value)
    return number


def in_words(name: str) -> str:
    """The variable in a sentence."""
    return {"params": "parameters", "tokens_per_param": "tokens a parameter"}.get(name, name.replace("_", " "))
