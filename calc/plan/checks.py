"""Which plans can be, and why the others cannot: each counted under the first reason that rules it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from calc.memory.condition import divides
from calc.memory.conditions import conditions
from calc.memory.stage_lengths import ENDS, full_pieces, further_modules, lighter_ends
from calc.plan.launchers import Launcher
from calc.plan.layouts import cut_in_pieces
from calc.plan.question import Question
from calc.plan.space import Column, Columns
from calc.spec.run import Run

REASONS = {
    "global batch": "does not divide: data-parallel ranks × micro-batch in the global batch",
    "sequence": "does not divide: 2 × cp in the sequence",
    "tp": "does not divide: tp in heads, feed-forward or experts' width",
    "ep": "does not divide: ep in experts or ranks",
    "pp": "does not divide: more stages than layers, or layers that cannot be cut",
    "interleave": "does not divide: pieces of stages in layers",
    "cp": "does not divide: cp in what every rank reads, or layers that are known on one rank alone",
    "shard": "does not divide: ranks that hold the same weights in --shard",
    "expert_tp": "experts in other pieces than one, or one for each tensor-parallel rank",
    "seq": "a length that the model's layers do not take",
    "micro_batches": "does not divide: stages in micro-batches, as the stack's pieces of stages need",
    "micro-batches": "fewer micro-batches than DualPipe takes, or an odd number of them",
    "pieces": "does not divide: stages in micro-batches, which pieces of stages need",
    "zero": "stages of ZeRO that do not go with the formats, a pipeline or updates on the host",
    "offload": "pipelines, beside activations on the host",
    "domain": "tensor-parallel ranks beyond a machine and its fast links",
    "stack": "unsupported by the stack",
    "memory": "too large for a GPU",
    "host": "too large for the memory of a machine",
    "unread": "memory or time of its kind is not described",
    "time": "nothing is known of its time",
}
"""Why a plan is ruled out, in the order in which it is asked. Of what the stack does not launch it is also known which
of a plan's settings that is: stack:tp."""


def in_words(reason: str) -> str:
    """Why plans are ruled out, in words."""
    known, _, setting = reason.partition(":")
    return f"{REASONS[known]}: {setting}" if setting else REASONS[known]


def possible(question: Question, run: Run, columns: Columns) -> tuple[Column, Counter[str]]:
    """The places of the rows that can be carried out, and how many each reason rules out."""
    import numpy as np

    alive, ruled = np.ones(len(columns["dp"]), dtype=bool), Counter[str]()
    for reason, holds in _tests(question, run, columns):
        lost = int((alive & ~holds).sum())
        if lost:
            ruled[reason] += lost
        alive &= holds
    return np.flatnonzero(alive), ruled


def failed_by_all(question: Question, run: Run, columns: Columns) -> list[str]:
    """The reasons each of which alone rules out every row."""
    return [reason for reason, holds in _tests(question, run, columns) if not holds.any()]


def _tests(question: Question, run: Run, columns: Columns) -> Iterator[tuple[str, Column]]:
    yield "global batch", divides(columns["dp"] * columns["batch"], 0 * columns["dp"] + question.sequences)
    # Halves of a sequence from both ends even out what causal attention leaves each rank (arXiv:2310.01889).
    yield "sequence", (columns["cp"] == 1) | divides(2 * columns["cp"], 0 * columns["cp"] + question.seq)
    for condition in conditions(question.spec, run):
        if condition.of_rows:
            yield condition.field, condition.test(condition.a, condition.b)
    # A stage turns to its next piece after as many micro-batches as there are stages (Narayanan et al. 2021,
    # arXiv:2104.04473, section 2.2).
    yield "pieces", (columns["interleave"] == 1) | divides(columns["pp"], columns["micro_batches"])
    # Sums of tensor parallelism wait for links: nobody runs them over the network.
    yield "domain", columns["tp"] <= max(question.cluster.domain, question.cluster.node)
    for setting, holds in _launched(question.launcher, run, columns):
        yield f"stack:{setting}", holds
    yield "stack:stages", _cut(question, columns, run)


def _cut(question: Question, columns: Mapping[str, Any], run: Run) -> Column:
    """Whether stages can be cut as the stack cuts them. Where of so many layers one is checkpointed and all pieces
    are alike, a number of layers of each is told, which must be that part of them. The ends of stages that hold one
    piece are not lighter, nor those of which a layout alone can say so (`calc.memory.stage_lengths.lighter_ends`)."""
    pieces, layers = columns["pp"] * columns["interleave"], question.spec.n_layers
    if question.launcher.stages == "any":
        return pieces > 0
    every, further = run.checkpoint_every, further_modules(question.spec, run)
    alike = even(layers, pieces * every)
    if question.launcher.stages == "by layers":
        return (columns["pp"] == 1) | (dealt_by_layers(layers, columns["pp"], columns["interleave"]) & (further == 0))
    if not further:
        alike = alike | ((columns["interleave"] > 1) & even(layers + ENDS, pieces * every))
    if every > 1:
        return alike
    if further and question.launcher.modules == "ends":
        return alike | ends_alone(layers, columns["pp"], columns["interleave"], further)
    return alike | ((columns["pp"] > 1) & cut_in_pieces(layers, columns["pp"], columns["interleave"], further))


def even(layers: int, pieces: Any) -> Any:
    """Whether all pieces have as many layers."""
    return layers % pieces == 0


def dealt_by_layers(layers: int, pp: Any, interleave: Any) -> Any:
    """Whether torchtitan deals layers as a plan has them: stages of one piece always, others where all pieces but the
    first or the last are as long."""
    pieces = pp * interleave
    return (interleave == 1) | full_pieces(layers, pieces) | lighter_ends(layers, pp, interleave)


def ends_alone(layers: int, pp: Any, interleave: Any, further: int) -> Any:
    """Whether stages hold one piece each, of which the first and the last alone are shorter."""
    shorter = full_pieces(layers, pp) | lighter_ends(layers, pp, interleave, further)
    return (pp > 1) & (interleave == 1) & shorter


def _launched(launcher: Launcher, run: Run, columns: Mapping[str, Any]) -> Iterator[tuple[str, Column]]:
    """Each setting that the stack does not launch in all values, and in which rows it does."""
    import numpy as np

    alone = columns["dp"] * columns["cp"] == 1
    for name, column in columns.items():
        if name in launcher.only:
            yield name, np.isin(column, launcher.only[name]) | (alone if name == "zero" else False)
    if launcher.narrow_zero is not None and run.usual_optimizer == "adamw-bf16":
        yield "zero", np.isin(columns["zero"], launcher.narrow_zero) | alone
    yield "expert_tp", (columns["dp"] > 0) & launcher.cuts(columns["tp"], columns["ep"], run.expert_pieces)
