"""Searches of a million plans and more, and the work of the head alone for a thousand million."""

from __future__ import annotations

from typing import Any, NamedTuple

import calc
from calc.plan.launchers import launcher
from calc.plan.pieces import PIECE, Piece, SearchRequest, searched
from calc.plan.question import Question
from calc.plan.search import Seen
from calc.plan.space import places, structures
from calc.spec.clusters import load_cluster
from calc.workers.job import Job, Part

TOP = 10


def question(plans: int) -> Question:
    """One with so many rows or little more, on as many numbers of GPUs as that takes."""
    where, recipes, found = load_cluster("dgx-h100"), launcher("megatron-core").recipes, ()
    for nodes in range(8, 2000, 8):
        found = (*found, 8 * nodes)
        words: dict[str, Any] = {"at_most": {"batch": 8}, "words": {"stack": "megatron-core"}}
        made = Question(calc.load_model("llama-3-70b"), where, found, 4096, 15360 * 21, recipes, **words)
        kinds = [each for some in structures(made) for each in some]
        if sum(places(made, gpus, words) for gpus in found for words in kinds) >= plans:
            return made
    raise ValueError(f"{plans:,} plans")


class Typical(NamedTuple):
    """A part that stands for all of a search too large to be run."""

    part: Part


def typical(asked: Question) -> Part:
    """What one full piece of a search gives back."""
    words, _ = structures(asked)
    return searched(
        SearchRequest(asked, words, len(words), "time", TOP),
        Piece(0, tuple((gpus, 0, PIECE) for gpus in asked.gpus[:4])),
    )


def again(typical: Typical, chunk: int) -> Part:
    """The same part for any chunk, without the work."""
    return typical.part


def imagined(asked: Question, rows: int) -> Job:
    """A search of so many rows whose pieces take no time: what is left is what the head does."""
    count = -(-rows // PIECE)
    return Job("imagined", dict, again, Typical(typical(asked)), range(count), count)


def merged(asked: Question, results: Any) -> Seen:
    """What the head makes of parts."""
    seen = Seen(structures(asked)[0])
    for _, part in results:
        seen.add(part, TOP)
    return seen
