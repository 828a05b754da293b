"""Model FLOPs utilization: the FLOPs that a model needs over those that its devices could do in the same time."""

from __future__ import annotations

from typing import NamedTuple

from calc import conventions
from calc.errors import Refused
from calc.predict.operations import tree_of
from calc.predict.setting import Setting
from calc.predict.speed import Speed
from calc.quantities.flops import of_prompt
from calc.query import Query
from calc.spec import ModelSpec, Moe


class Mfu(NamedTuple):
    """value: a fraction. convention: what counted the FLOPs. peak: FLOP/s of one device, and where that is from."""

    value: float
    convention: str
    peak: float
    peak_source: str


def mfu(spec: ModelSpec, setting: Setting, speed: Speed, seconds: float) -> Mfu | None:
    """That of a step of `seconds`; None in decode, where bytes are what counts, and where no peak is known."""
    if setting.phase == "decode":
        return None
    try:
        peak = speed.peak(setting.formats.compute)
    except Refused:
        return None
    flops, convention = _flops(spec, setting)
    flops *= setting.micro_batches * setting.plan.dp
    source = "datasheet, dense" if speed.device else "largest measured product"
    return Mfu(flops / (seconds * setting.plan.gpus * peak), convention, peak, source)


def _flops(spec: ModelSpec, setting: Setting) -> tuple[float, str]:
    """(FLOPs of one pass, by which convention): PaLM's (arXiv:2204.02311, appendix B), and a third of it without
    backward; where that does not read the model, or counts experts that no token visits, the products that run, causal
    pairs counted whole. Of a prompt only the last place has logits."""
    sizes = {"batch": setting.batch, "seq": setting.seq, "source_seq": setting.source_seq, "images": setting.images}
    try:
        if any(isinstance(group.channel, Moe) for group in spec.layers):
            raise Refused("model", "one whose tokens visit all parameters", "experts")
        found = conventions.flops(spec, Query(phase="training", convention="palm", **sizes)).total
        flops, name = float(found) * (1.0 if setting.training else 1 / 3), "palm"
    except Refused:
        phase = "training" if setting.training else "forward"
        flops, name = float(conventions.flops(spec, Query(phase=phase, convention="torch", **sizes)).total), "torch"
    if setting.phase == "prefill":
        for leaf in tree_of(spec, setting):
            flops -= float(leaf.op.flops) * float(leaf.calls) * (1 - of_prompt(leaf, setting.seq))
    return flops, name
