"""Model FLOPs utilization: the FLOPs that a model needs over those that its devices could do in the same time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple

from calc import conventions
from calc.errors import Refused
from calc.quantities.flops import of_prompt
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.cache_key import CacheKey
from calc.spec.run import Run
from calc.time.device.speed import Speed
from calc.time.step.formats import number_formats
from calc.time.step.record import tree_of
from calc.trace.functions import Attend

READ = ("batch", "seq", "source_seq", "images", "image", "document")
"""What a pass reads, as a Run has it."""
MOST_HIDDEN = 1 / 8
"""Part of a count of FLOPs that may be of pairs that never run."""


class Counting(NamedTuple):
    """convention: what counted the FLOPs; None where nothing did. pairs: which pairs of queries and keys it counts,
    `all` or `causal`, those that a mask keeps; None where the model has no attention over pairs."""

    convention: str | None
    pairs: Literal["all", "causal"] | None

    def __str__(self) -> str:
        """Both, as tables show them."""
        return (self.convention or "–") + (f", {self.pairs} pairs" if self.pairs else "")


NOT_COUNTED = Counting(None, None)


class Mfu(NamedTuple):
    """value: a fraction. peak: FLOP/s of one device, and where that is from."""

    value: Size
    counting: Counting
    peak: float
    peak_source: str


def mfu(run: Run, speed: Speed, flops: Size, counting: Counting, seconds: Size) -> Mfu | None:
    """That of a step of `seconds` whose passes each take so many model FLOPs; None in decode, where bytes are what
    counts, and where no peak is known."""
    if run.phase == "decode":
        return None
    dtype = number_formats(run).compute
    try:
        peak = speed.peak(dtype)
    except Refused:
        return None
    flops = flops * (run.passes_a_step * run.dp)
    source = f"datasheet, dense {dtype}" if speed.device else f"largest measured product in {dtype}"
    return Mfu(flops / (seconds * run.gpus * peak), counting, peak, source)


def model_flops(spec: ModelSpec, run: Run) -> tuple[float, Counting]:
    """(FLOPs of one pass, how they are counted): PaLM's (arXiv:2204.02311, appendix B), and a third of it without
    backward; where that does not read the model, or counts experts that no token visits, the products that run, causal
    pairs counted whole. Of a prompt only the last place has logits. Where pairs that a mask hides are more than
    `MOST_HIDDEN` of the count and the kernel for attention passes them over, they are left out: with them a long
    prompt has more than 100 %."""
    flops, name = _counted(CacheKey(spec), run.trains, tuple(getattr(run, name) for name in READ))
    if run.phase == "prefill":
        for leaf in tree_of(spec, run):
            flops -= float(leaf.op.flops) * float(leaf.calls) * (1 - of_prompt(leaf, run.seq))
    attention, hidden = _pairs(spec, run)
    hidden *= 3 if run.trains else 1
    if hidden > MOST_HIDDEN * flops:
        return flops - hidden, Counting(name, "causal")
    return flops, Counting(name, "all" if attention else None)


def _pairs(spec: ModelSpec, run: Run) -> tuple[bool, float]:
    """(whether queries meet keys, FLOPs of one forward pass for pairs of these that are counted and a mask hides)"""
    some, hidden = False, 0.0
    for leaf in tree_of(spec, run):
        shape = leaf.op.shape
        if isinstance(shape, Attend) and leaf.op.function in ("scores", "values"):
            width = shape.d_value if leaf.op.function == "values" else shape.d_head
            whole = 2.0 * shape.groups * shape.heads * shape.queries * shape.keys * width
            some = True
            hidden += float(leaf.calls) * max(whole - float(leaf.op.flops), 0.0)
    return some, hidden


@lru_cache(maxsize=256)
def _counted(key: CacheKey[ModelSpec], trains: bool, read: tuple[Any, ...]) -> tuple[float, str]:
    spec, sizes = key.value, dict(zip(READ, read, strict=True))
    try:
        if spec.has_experts:
            raise Refused("model", "one whose tokens visit all parameters", "experts")
        found = conventions.flops(spec, Run(phase="training", convention="palm", **sizes)).total
        return float(found) * (1.0 if trains else 1 / 3), "palm"
    except Refused:
        phase = "training" if trains else "forward"
        return float(conventions.flops(spec, Run(phase=phase, convention="torch", **sizes)).total), "torch"
