"""Plans that their authors tuned, as questions: the published plan, and all others that its stack could have run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from calc.plan.planning import with_offload
from calc.plan.question import Question
from calc.plan.search import search
from calc.spec import Moe
from calc.spec.clusters import load_cluster
from calc.spec.run import Run
from tests.time.training_rows import TrainingRow, training_rows

NEWEST = ("26.06", "26.08")
"""Releases of Megatron-Bridge whose rows count as tuned."""
DENSE = {"batch": 16, "tp": 8, "cp": 16}
EXPERTS = {"batch": 8, "tp": 2, "cp": 4}
"""Sequences of a micro-batch, `tp` and `cp`, at most, so that every row is searched in seconds; mixtures of experts
take longer. No best plan was found beyond them."""
SIZES = ("tp", "pp", "cp", "ep", "batch", "zero", "interleave")
OF_ALL = ("stack", "execution", "optimizer", "mtp", "gradient_dtype", "fp8_recipe", "fp8_param_gather")
"""Words of a row that hold of every plan it is compared with."""
STATED = ("checkpointing", "recompute", "expert_tp", "offload", "offload_layers")
"""Words of a plan that some rows say."""


class Tuned(NamedTuple):
    """One row. own: seconds a step of the published plan, None where it is not in the space or does not fit. best: of
    all."""

    row: TrainingRow
    own: float | None
    best: float | None

    @property
    def gap(self) -> float:
        """By how much the published plan is predicted to take longer than the best; nan where it cannot be said."""
        return math.nan if self.own is None or self.best is None else self.own / self.best - 1


def tuned_rows() -> Iterator[TrainingRow]:
    """The rows of which the issue of a planner is asked, each set-up once."""
    seen: set[str] = set()
    for row in training_rows():
        tuned = row.source == "MLPerf" and row.kind in ("dense", "nvfp4")
        tuned |= row.source == "Megatron-Bridge" and row.kind != "lora" and row.name.split(", ")[-1].startswith(NEWEST)
        tuned |= row.source == "Llama 3 405B"
        key = f"{row.source} {row.spec.name} {row.system} {sorted(map(str, row.words.items()))}"
        if tuned and key not in seen:
            seen.add(key)
            yield row


def question_of(row: TrainingRow) -> Question:
    """What the row's authors were asked: model, GPUs, batch, formats and stack."""
    words = dict(row.words)
    gpus = words.pop("gpus", None) or math.prod(words.get(name, 1) for name in ("dp", "tp", "pp", "cp"))
    ranks = math.prod(words.get(name, 1) for name in ("tp", "pp", "cp"))
    sequences = gpus // ranks * words.get("batch", 1) * words["micro_batches"]
    own = {name: words[name] for name in OF_ALL if name in words}
    cluster, recipe = load_cluster(words["cluster"]), words["recipe"]
    experts = any(isinstance(group.channel, Moe) for group in row.spec.layers)
    asked = row.spec, cluster, (gpus,), words["seq"], sequences, (recipe,)
    stack = Run(stack=words["stack"]).stack  # a name, or a description that a row's recipe changes
    launched, bounds = None if stack is None else stack.name, EXPERTS if experts else DENSE
    return Question(*asked, words=own, at_most=bounds, launched=launched)


def published(row: TrainingRow) -> dict[str, Any]:
    """What the row says of its plan."""
    said = {name: row.words.get(name, 1 if name != "zero" else 0) for name in SIZES}
    stated = {name: row.words[name] for name in STATED if row.words.get(name) is not None}
    return said | stated


def tuned(row: TrainingRow) -> Tuned:
    """The published plan, and the best of all."""
    asked = question_of(row)
    return Tuned(row, fastest(replace(asked, fixed=published(row))), fastest(asked))


def fastest(asked: Question) -> float | None:
    """Seconds a step of the best plan, as a search has them: an answer times each of dozens alone once more, and comes
    to the same (`tests/plan/test_search.py`). None where none fits, with the optimizer on the host neither."""
    for question in filter(None, (asked, with_offload(asked))):
        if found := search(question, top=1).rows:
            return float(found["seconds"].min())
    return None
