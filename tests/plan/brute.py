"""Every plan of a small space one by one, by nothing that the search has but `predict` and `memory`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.memory.totals import memory_ranks
from calc.plan.question import CONTEXT, Question
from calc.time import predict

MODULE_SETS = (
    *(("mla_up_proj",), ("moe_act",), ("mlp",), ("layernorm", "moe_act"), ("layernorm", "moe"), ("mla_up_proj", "mlp")),
    ("mla_up_proj", "layernorm", "moe_act"),
)
"""Modules that are computed again together; a model without them is refused."""


class Alone(NamedTuple):
    """One plan that fits: its words, seconds and bytes at the peak."""

    words: tuple[tuple[str, Any], ...]
    seconds: float
    peak: int


def every_plan(question: Question) -> list[Alone]:
    """All plans that fit, of a question that fixes the schedule."""
    return [found for words in _words(question) if (found := _alone(question, words)) is not None]


def _words(question: Question) -> Iterator[dict[str, Any]]:
    (gpus,) = question.gpus
    ranks, batches = range(1, gpus + 1), range(1, min(question.sequences, 64) + 1)
    sizes = product(ranks, ranks, ranks, ranks, batches, (0, 1, 2, 3), range(1, 21))
    for tp, pp, cp, ep, batch, zero, interleave in sizes:
        if gpus % (tp * pp * cp) or (interleave > 1 and pp == 1) or interleave * pp > question.spec.n_layers + 2:
            continue
        dp = gpus // (tp * pp * cp)
        if question.sequences % (dp * batch) or (zero and dp * cp == 1) or (cp > 1 and question.seq % (2 * cp)):
            continue
        micro_batches = question.sequences // (dp * batch)
        layers = question.spec.n_layers
        even = interleave in (1, 2, 4, 8, 16) or not layers % interleave or not (layers + 2) % interleave
        if (interleave > 1 and micro_batches % pp) or not even:
            continue
        ways: list[tuple[str, int, tuple[str, ...]]]
        ways = [(name, 1, ()) for name in ("none", "selective", "selective-op", "full")]
        ways += [("full", every, ()) for every in (2, 4, 8)]
        if question.launcher.recomputable and "checkpointing" not in question.fixed:
            ways += [("none", 1, names) for names in MODULE_SETS]
        experts = any(group.channel is not None and group.channel.kind == "moe" for group in question.spec.layers)
        cuts = (tp, 1) if experts and tp > 1 else (tp,)
        words_of_all = product(question.recipes, ways, (True, False), cuts)
        for recipe, (checkpointing, every, modules), divided, pieces in words_of_all:
            if (checkpointing == "selective-op" and tp > 1) or (tp == 1 and not divided):
                continue
            if not question.allows("expert_tp", pieces):
                continue
            words: dict[str, Any] = {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "dp": dp, "batch": batch, "zero": zero}
            words |= {"interleave": interleave, "micro_batches": micro_batches, "recipe": recipe}
            words |= {"checkpointing": checkpointing, "checkpoint_every": every}
            words |= {} if divided else {"sequence_parallel": False}
            words |= {"recompute": modules} if modules else {}
            words |= {} if pieces == tp else {"expert_tp": pieces}
            if question.fixed["schedule"] != "1f1b":
                if pp == 1 or interleave > 1:
                    continue
                words["schedule"] = question.fixed["schedule"]
            if all(question.allows(name, words[name]) and question.launcher.takes(name, words[name]) for name in words):
                yield words


def _alone(question: Question, words: dict[str, Any]) -> Alone | None:
    try:
        words |= {"offload": question.fixed.get("offload", "none")}
        words |= {"offload_fraction": question.fixed.get("offload_fraction", 1)}
        found = predict(question.spec, question.device, **question.run_words(), **words)
        ranks = memory_ranks(question.spec, found.run)
    except Refused:
        return None
    reserved = max(getattr(rank, "reserved", rank.peak) for rank in ranks)
    if reserved > question.device.usable * (1 - question.headroom) - CONTEXT:
        return None
    peak = max(rank.peak for rank in ranks)
    return Alone(tuple(sorted(words.items(), key=str)), found.seconds, int(peak))
