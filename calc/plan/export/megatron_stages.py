"""How Megatron-Core is told which layers a stage of a pipeline has: by flags and, within NeMo, by settings.

Sources: megatron/core/transformer/transformer_block.py, get_num_layers_to_build (core_r0.13.0): all stages have as many
layers, embedding and loss counted as a layer each where that is said, or the first and the last have so many and the
others as many; a layout writes all pieces out, and goes with none of these. In layouts modules that predict further
tokens stand from core_r0.14.0 on; elsewhere the last stage has them (multi_token_prediction.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.memory.stage_lengths import further_modules, lighter_ends, stage_lengths
from calc.plan.export.launch import Division
from calc.plan.export.settings import whole
from calc.plan.layouts import layout_text, read_layout
from calc.spec import ModelSpec
from calc.spec.run import Run


class StageWords(NamedTuple):
    """Names of the settings of one tool. layouts_have_modules: whether modules for further tokens stand in its
    layouts."""

    embedding: str
    loss: str
    first: str
    last: str
    layout: str
    further: str
    layouts_have_modules: bool = True


class StageSettings(NamedTuple):
    """What a launch file says of a plan's stages, beside how many there are. ends: whether embedding and loss count as
    a layer each. first, last: layers of those stages. layout: all pieces. Nothing is said of stages that are alike."""

    ends: bool = False
    first: int | None = None
    last: int | None = None
    layout: str | None = None

    def settings(self, words: StageWords, further: int) -> Iterator[tuple[str, Any]]:
        """Each name with its value."""
        yield words.embedding, self.ends
        yield words.loss, self.ends
        yield words.first, self.first
        yield words.last, self.last
        yield words.layout, self.layout
        yield words.further, further or None


def stage_settings(spec: ModelSpec, run: Run, words: StageWords) -> StageSettings:
    """What is said of a plan's stages. Errors: Refused for stages that a tool has no words for."""
    layers, further = spec.n_layers, further_modules(spec, run)
    if run.pp == 1:
        return StageSettings()
    if run.stages is None and not further and lighter_ends(layers, run.pp, run.interleave):
        return StageSettings(ends=True)
    if run.stages is None and layers % (run.pp * run.interleave) == 0:
        return StageSettings()
    if not further or words.layouts_have_modules:
        return StageSettings(layout=layout_text(spec, run))
    stages = stage_lengths(layers, run.pp, run.interleave, further, run.stages)
    if run.interleave > 1 or len(set(stages[1:-1])) > 1 or not stages[0] or not stages[-1]:
        expected = "one piece each, all as long but the first and the last, beside modules for further tokens"
        raise Refused("stages", expected, ",".join(map(str, stages)))
    return StageSettings(first=stages[0], last=stages[-1])


def read_stages(
    found: Mapping[str, Any], words: StageWords, pp: int, truth: Callable[[str], bool], where: str, piece: int | None
) -> Division:
    """What a launch file says of its stages. truth: whether a setting is on. piece: layers of a piece, where that is
    said.

    Errors: Refused for what Megatron-Core refuses: several of its ways at once, and modules in a layout in another
    number than beside it.
    """
    ends = int(truth(words.embedding)), int(truth(words.loss))
    first, last = whole(found, words.first, where), whole(found, words.last, where)
    further = whole(found, words.further, where, 0, least=0)
    if (first or last) and (any(ends) or piece):
        raise Refused(f"{where}: {words.first if first else words.last}", "none beside other words for stages", "both")
    if words.layout not in found:
        return Division(piece, *ends, first, last, further=further)
    layout = read_layout(str(found[words.layout]), pp, f"{where}: {words.layout}")
    if any(ends) or first or last or piece:
        raise Refused(f"{where}: {words.layout}", "none beside other words for stages", "both")
    if layout.further != further:
        raise Refused(f"{where}: {words.layout}", f"as many m as {words.further} says: {further}", layout.further)
    if layout.further and not words.layouts_have_modules:
        raise Refused(f"{where}: {words.layout}", "no m, which Megatron-Core has in layouts from 0.14 on", "m")
    return Division(layout=layout, further=further)
