"""Batch and learning rate for a run: by the law's own rule, else by Step Law's."""

from __future__ import annotations

from typing import NamedTuple

from calc.laws.base import Law
from calc.laws.bjorck import BJORCK
from calc.laws.deepseek import DEEPSEEK
from calc.laws.kaplan import KAPLAN
from calc.laws.ludziejewski import LUDZIEJEWSKI
from calc.laws.pearce_song import PEARCE_SONG, non_embedding
from calc.laws.porian import PORIAN
from calc.laws.step_law import STEP_LAW
from calc.units import si

_EMBEDDINGS = {
    "all": 1.0,
    "active": 1.0,
    "without input embedding": 0.5,
    "non-embedding": 0.0,
    "active non-embedding": 0.0,
}
"""What a law counts as N -> the part of the embeddings in it."""


LARGEST = 1.0
"""A peak learning rate that no training has: what a rule gives from there on, of sizes far beyond its own, is none."""


class Hyperparameters(NamedTuple):
    """batch_tokens: tokens in a batch. learning_rate: at its peak. rule: whose they are, in words."""

    batch_tokens: float
    learning_rate: float | None
    rule: str


def hyperparameters(
    law: Law,
    compute: float,
    params: float,
    tokens: float,
    without: float | None = None,
    experts: float | None = None,
) -> Hyperparameters:
    """What to train N, as the law counts it, on D with, where training takes C FLOPs.

    without: parameters without embeddings, which is Step Law's N; where None, they are taken from N as in models of
    Chinchilla's shapes. experts: of a mixture, whose learning rate is Ludziejewski's. Kaplan's batch is the critical
    one at the loss that his law has for C; his learning rate turns negative past 12B. What no training has is left out.
    """
    found = _chosen(law, compute, params, tokens, without, experts)
    rate = found.learning_rate
    return found._replace(learning_rate=rate if rate is not None and _possible(rate) else None)


def _possible(rate: float) -> bool:
    return 0 < rate < LARGEST


def _chosen(
    law: Law, compute: float, params: float, tokens: float, without: float | None, experts: float | None
) -> Hyperparameters:
    """What the law's own rule or Step Law's gives, whether or not it can be."""
    if law is KAPLAN:
        rate = law.evaluate("learning_rate", params=params)
        loss = law.evaluate("loss", compute=compute)
        batch = law.evaluate("batch_tokens", loss=loss)
        rule = "kaplan: critical batch of equation 1.4; rate of equation D.1, not confirmed"
        return Hyperparameters(batch, rate, rule)
    if law is DEEPSEEK:
        batch, rate = (law.evaluate(name, compute=compute) for name in ("batch_tokens", "learning_rate"))
        return Hyperparameters(batch, rate, "deepseek: equation 1, from compute")
    own, counted = without, ""
    if own is None:
        own = without_embeddings(law, params)
        counted = f" ({si(own)} without embeddings, in Chinchilla's shapes)" if own != params else ""
    batch = STEP_LAW.evaluate("batch_tokens", tokens=tokens)
    rate = STEP_LAW.evaluate("learning_rate", params=own, tokens=tokens)
    outside = STEP_LAW.outside(params=own, tokens=tokens)
    if experts is not None:
        rate = LUDZIEJEWSKI.evaluate("learning_rate", params=own, experts=experts)
        rule = f"rate: ludziejewski, equation 8, from this N{counted} and experts; batch: step-law, from this D"
        return Hyperparameters(batch, rate, f"{rule}; {STEP_LAW.second_hand}")
    rule = f"step-law, from this N{counted} and D{', outside of its range' * bool(outside)}; {STEP_LAW.second_hand}"
    return Hyperparameters(batch, rate, rule)


def every(
    law: Law, compute: float, params: float, tokens: float, without: float | None = None
) -> dict[str, tuple[float | None, float]]:
    """What the rules that are not superseded give for one run: law -> (batch in tokens, peak learning rate).

    Each is handed its own N: Step Law's has no embeddings, Porian's has the last layer alone. Bjorck's has no batch,
    and carries on Step Law's rate where D is beyond that law's data.
    """
    own = without_embeddings(law, params) if without is None else without
    last = own + 0.5 * (PEARCE_SONG.evaluate("params_total", params=own) - own)
    taken = (
        (STEP_LAW, {"tokens": tokens}, {"params": own, "tokens": tokens}),
        (DEEPSEEK, {"compute": compute}, {"compute": compute}),
        (PORIAN, {"params": last}, {"params": last}),
    )
    found: dict[str, tuple[float | None, float]] = {
        rule.name: (rule.evaluate("batch_tokens", **of_batch), rule.evaluate("learning_rate", **of_rate))
        for rule, of_batch, of_rate in taken
    }
    end = STEP_LAW.valid["tokens"][1]
    if tokens > end:
        rate = STEP_LAW.evaluate("learning_rate", params=own, tokens=end)
        carried = BJORCK.evaluate("learning_rate", known_rate=rate, known_tokens=end, tokens=tokens)
        found[BJORCK.name] = (None, carried)
    return {name: (batch, rate) for name, (batch, rate) in found.items() if _possible(rate)}


def without_embeddings(law: Law, params: float) -> float:
    """N of a law less the embeddings that it counts, as they are in models of Chinchilla's shapes."""
    share = _EMBEDDINGS[law.counts]
    return non_embedding(params, share) if share else params
