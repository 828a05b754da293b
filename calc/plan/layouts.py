"""Megatron-Core's layouts of a pipeline: which layers stand in which piece, written out.

E is the embedding, t a layer, m a module that predicts further tokens, L the head and loss; a bar stands between two
pieces, of which piece i belongs to stage i mod pp. X*3 and (..)*3 stand for what comes three times, and commas for
nothing (Megatron-LM, core_r0.13.0, megatron/core/transformer/pipeline_parallel_layer_layout.py; m from core_r0.14.0).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.memory.stage_lengths import (
    full_pieces,
    further_modules,
    in_pieces,
    lighter_ends,
    piece_lengths,
    stage_lengths,
    whole_stages_in,
)
from calc.spec import ModelSpec
from calc.spec.run import Run

LONGEST = 2**14
"""Letters and bars that a layout may have once it is written out."""
REPEATED = (re.compile(r"\(([^()]+)\)\*(\d{1,5})"), re.compile(r"([EtmL|])\*(\d{1,5})"))
"""What comes several times: first what is in brackets, then letters alone."""


class Layout(NamedTuple):
    """What a layout says. pieces: in how many every stage holds its layers. stages: how many layers each has. further:
    modules that predict further tokens, on the last."""

    pieces: int
    stages: tuple[int, ...]
    further: int


def cut_in_pieces(layers: int, pp: Any, interleave: Any, further: int = 0) -> Any:
    """Whether every piece has a layer, but for the last, which has the head; for numbers or columns. further: modules
    that predict further tokens beside it."""
    pieces = pp * interleave
    dealt = full_pieces(layers, pieces) | lighter_ends(layers, pp, interleave, further)
    return dealt | whole_stages_in(layers, pp, interleave)


def layout_text(spec: ModelSpec, run: Run) -> str:
    """The layout of a run whose pieces are not alike."""
    further = further_modules(spec, run)
    held = piece_lengths(spec.n_layers, run.pp, run.interleave, further)
    if run.stages is not None:
        held = in_pieces(stage_lengths(spec.n_layers, run.pp, given=run.stages), run.interleave)
    pieces = ["t" * n for n in held]
    pieces[0] = "E" + pieces[0]
    pieces[-1] += "m" * further + "L"
    return "|".join(pieces)


def read_layout(text: str, pp: int, where: str) -> Layout:
    """What a layout says of `pp` stages. Errors: Refused for what is no layout, for pieces that do not make as many
    stages, and for modules that stand on another stage than the head, of which no time is described."""
    letters = _written_out(text.replace(",", ""), where)
    if not re.fullmatch(r"E[t|]*m*L", letters):
        raise Refused(
            where, "E, layers t in pieces between |, and mL or L in the last, as in Et*4|(t*4|)*6t*4L", text[:40]
        )
    pieces = letters.split("|")
    if len(pieces) % pp:
        raise Refused(where, f"as many pieces as pp = {pp} divides", len(pieces))
    stages = tuple(sum(piece.count("t") for piece in pieces[stage::pp]) for stage in range(pp))
    return Layout(len(pieces) // pp, stages, letters.count("m"))


def _written_out(text: str, where: str) -> str:
    """Every letter and bar once for each time it comes. Errors: Refused for more than a pipeline has."""
    for repeated in REPEATED:
        if len(text) + sum(len(each[1]) * int(each[2]) for each in repeated.finditer(text)) > LONGEST:
            raise Refused(where, f"at most {LONGEST:,} layers and pieces", text[:40])
        text = repeated.sub(lambda each: each[1] * int(each[2]), text)
    return text
