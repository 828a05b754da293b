"""Every plan there is, in columns: structure outside, sizes inside, a chunk at a time.

A plan is a row. Its ranks multiply to the number of GPUs, and its micro-batches follow from the global batch; what one
name says twice (ZeRO among one rank, pieces of a pipeline that is none) is listed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from calc.errors import Refused
from calc.memory.conditions import conditions
from calc.memory.expert_conditions import whole_experts
from calc.memory.stage_lengths import ENDS
from calc.plan.question import BESIDE_MODULES, CHOICES, IF_ASKED, Question
from calc.quantities.modules import modules_of
from calc.spec import ModelSpec, Moe
from calc.spec.cache_key import CacheKey
from calc.spec.run import Run
from calc.time.step.record import tree_of
from calc.time.step.timed_run import PARTIAL, timed_run

Column = Any
"""A float64 array, an entry a plan."""
Columns = Mapping[str, Column]
CHUNK = 2**17
"""Plans handled together, so that a search of any size takes as much memory."""
LARGEST_BATCH = 64
"""Sequences of a micro-batch beyond which nothing is gained: products are large long before."""
MOST_PIECES = 20
"""Pieces of its layers that a stage holds at most."""
ON_ONE_RANK = "selective-op"
"""Checkpointing of which nothing is known beside tensor parallelism."""


def structures(question: Question) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The words of every kind of plan that the stack can launch, and of every kind that it cannot.

    Which operations `selective-op` keeps is not known beside tensor parallelism, so that it has tp = 1 among its words.
    Of every so many layers one is checkpointed where layers are, as a whole, and a part of the optimizer is on the host
    where the optimizer is. Modules that are fixed are computed again beside no checkpointing and selective, which names
    one of them, others beside none. Experts that no rank cuts ask for a divided stream
    (`calc.memory.expert_conditions`); in how many pieces they may be is asked of each row.
    """
    choices = {"recipe": question.recipes, **CHOICES, "recompute": _modules(question)}
    choices["offload_layers"] = _layers_on_host(question)
    beside = BESIDE_MODULES if "recompute" in question.fixed else ("none",)
    asked = {**IF_ASKED, **{name: word for name, word in question.fixed.items() if name != "expert_tp"}}
    whole = _whole(question)
    ways = [[value for value in choices[name] if asked.get(name, value) == value] for name in choices]
    found: list[dict[str, Any]] = []
    unsupported: list[dict[str, Any]] = []
    for values in product(*ways):
        words = dict(zip(choices, values, strict=True))
        if words["checkpoint_every"] > 1 and words["checkpointing"] != "full":
            continue
        if words["recompute"] and words["checkpointing"] not in beside:
            continue
        if "core_attn" in words["recompute"] and words["checkpointing"] == "selective":
            continue
        if words["offload_fraction"] != 1 and words["offload"] != "optimizer":
            continue
        if words["offload_layers"] is not None and words["offload"] != "activations":
            continue
        if words["expert_tp"] and not (whole and words["sequence_parallel"] and words["checkpointing"] != ON_ONE_RANK):
            continue
        taken = all(question.launcher.takes(name, value) for name, value in words.items() if name != "recipe")
        taken &= words["expert_tp"] is None or question.launcher.experts != "cut"
        taken &= words["offload"] != "activations" or question.waits_on_host(words)
        taken &= not (words["checkpointing"] == "full" and question.words.get("graphs") in PARTIAL)
        if words["checkpointing"] == ON_ONE_RANK:
            if not words["sequence_parallel"] or not question.allows("tp", 1):
                continue
            words["tp"] = 1
        (found if taken else unsupported).append(words)
    return found, unsupported


def _layers_on_host(question: Question) -> tuple[int | None, ...]:
    """Of how many layers activations may wait on the host where they do: what is fixed, or all but the last, or of four
    parts of the layers three, two or one; and all but two where layers wait for those that leave, since copies are
    hidden where two stay."""
    if "offload_layers" in question.fixed:
        return (question.fixed["offload_layers"],)
    if question.fixed.get("offload") != "activations":
        return (None,)
    layers = question.spec.n_layers
    parts = {layers * quarters // 4 for quarters in (3, 2, 1)}
    if Run(stack=question.words.get("stack"), offload="activations").waits_for_host:
        parts |= {layers - 2}
    return None, *sorted((n for n in parts if 1 <= n < layers - 1), reverse=True)


def _modules(question: Question) -> tuple[tuple[str, ...], ...]:
    """Which modules are computed again: those that are fixed, else none or a set of those that the model has; none
    where checkpointing is fixed, beside which nobody asked for any."""
    if "recompute" in question.fixed or "checkpointing" in question.fixed:
        return (question.fixed.get("recompute", ()),)
    there = _modules_there(CacheKey(question.spec), question.seq)
    return (), *(names for names in question.launcher.module_sets if there.issuperset(names))


@lru_cache(maxsize=8)
def _modules_there(model: CacheKey[ModelSpec], seq: int) -> frozenset[str]:
    """The modules of a model, of one whose training is not described none."""
    try:
        return frozenset(modules_of(tree_of(model.value, timed_run(model.value, phase="training", seq=seq, batch=1))))
    except Refused:
        return frozenset()


def _whole(question: Question) -> bool:
    """Whether a plan may have whole experts on several tensor-parallel ranks."""
    alone = question.fixed.get("tp") == 1 or question.launcher.only.get("tp") == (1,)
    return whole_experts(question.spec) and question.allows("expert_tp", 1) and not alone


def run_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a structure as a Run takes them: a stream is divided where there are ranks to do so, or never."""
    described = {name: value for name, value in words.items() if name != "sequence_parallel"}
    return described if words["sequence_parallel"] else described | {"sequence_parallel": False}


def places(question: Question, gpus: int, words: Mapping[str, Any]) -> int:
    """How many rows the sizes of one structure make on so many GPUs, those among them that say a plan twice."""
    return len(list(ranks(question, gpus, words))) * math.prod(len(axis) for axis in _axes(question, words).values())


def chunks(
    question: Question, gpus: int, words: Mapping[str, Any], first: int = 0, last: int | None = None
) -> Iterator[Columns]:
    """Every plan of one structure on so many GPUs, a column a size; the sizes that passes see vary the slowest.

    first, last: of the rows that `places` counts, those from one on, up to the other.
    """
    import numpy as np

    table = np.array(list(ranks(question, gpus, words)), dtype=float)
    axes = _axes(question, words)
    lengths = [len(axis) for axis in axes.values()]
    total = len(table) * math.prod(lengths)
    total = total if last is None else min(total, last)
    for start in range(first, total, CHUNK):
        places = np.unravel_index(np.arange(start, min(start + CHUNK, total)), (len(table), *lengths))
        tp, cp, pp = table[places[0]].T
        columns = {
            name: np.array(axis, dtype=float)[at] for (name, axis), at in zip(axes.items(), places[1:], strict=True)
        }
        columns |= {"tp": tp, "cp": cp, "pp": pp, "dp": gpus / (tp * cp * pp)}
        columns["micro_batches"] = question.sequences / (columns["dp"] * columns["batch"])
        some = _once(columns, words) & _fixed(question, columns, words)
        if some.any():
            yield {name: column[some] for name, column in columns.items()}


def ranks(question: Question, gpus: int, words: Mapping[str, Any]) -> Iterator[tuple[int, int, int]]:
    """(tp, cp, pp) whose product divides the GPUs."""
    spec = question.spec
    spread = _spread(CacheKey(spec))
    tensor = [1] if "tp" in words or not spread["tp"] else divisors(gpus)
    context = divisors(gpus) if spread["cp"] else [1]
    for tp in tensor:
        for cp in context if question.allows("tp", tp) else []:
            if gpus % (tp * cp) or not question.allows("cp", cp) or cp > question.seq:
                continue
            stages = divisors(gpus // (tp * cp)) if spread["pp"] else [1]
            yield from ((tp, cp, pp) for pp in stages if pp <= spec.n_layers + ENDS and question.allows("pp", pp))


@lru_cache(maxsize=8)
def _spread(model: CacheKey[ModelSpec]) -> dict[str, bool]:
    """Whether it is written down how the model's blocks are spread over ranks of each kind."""
    import numpy as np

    spec, found = model.value, {}
    for name in ("tp", "cp", "pp"):
        try:
            list(conditions(spec, Run(phase="training").placed({name: np.array([1.0, 2.0])})))
            found[name] = True
        except Refused:
            found[name] = False
    return found


def _axes(question: Question, words: Mapping[str, Any]) -> dict[str, list[int]]:
    """The other sizes that are searched for, by their names."""
    spec = question.spec
    experts = [group.channel.n_experts for group in spec.layers if isinstance(group.channel, Moe)]
    axes = {
        "ep": divisors(experts[0]) if experts else [1],
        "batch": [n for n in divisors(question.sequences) if n <= LARGEST_BATCH],
        "zero": [0, 1, 2, 3],
        "interleave": _pieces(spec.n_layers) if words["schedule"] == "1f1b" else [1],
    }
    return {name: [size for size in axis if question.allows(name, size)] for name, axis in axes.items()}


def _pieces(layers: int) -> list[int]:
    """In how many pieces a stage may hold its layers: powers of two, and what divides the layers, with or without
    embedding and head in the place of one."""
    most = min(MOST_PIECES, (layers + ENDS) // 2)
    return [n for n in range(1, most + 1) if n & (n - 1) == 0 or layers % n == 0 or (layers + ENDS) % n == 0]


def _once(columns: Columns, words: Mapping[str, Any]) -> Column:
    """Of rows that say the same plan, the plainest: one kind of schedule without a pipeline, and so on."""
    holds = (columns["zero"] == 0) | (columns["dp"] * columns["cp"] > 1)
    holds &= (columns["interleave"] == 1) | (columns["pp"] > 1)
    if words["schedule"] != "1f1b":
        holds &= columns["pp"] > 1
    if not words["sequence_parallel"] or words["expert_tp"]:
        holds &= columns["tp"] > 1
    return holds


def _fixed(question: Question, columns: Columns, words: Mapping[str, Any]) -> Column:
    """Rows whose dp, micro-batches and pieces of experts are those that were asked for; of other sizes nothing else is
    listed."""
    import numpy as np

    sizes = {"dp": columns["dp"], "micro_batches": columns["micro_batches"]}
    sizes["expert_tp"] = columns["tp"] if words["expert_tp"] is None else 0 * columns["tp"] + words["expert_tp"]
    holds = np.ones(len(columns["dp"]), dtype=bool)
    for name, column in sizes.items():
        if name in question.fixed:
            holds &= column == question.fixed[name]
        if name in question.at_most:
            holds &= column <= question.at_most[name]
    return holds


def divisors(n: int) -> list[int]:
    """All whole divisors of a number, the smallest first."""
    small: Sequence[int] = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})
