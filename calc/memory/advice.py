"""Which knob moves a peak: every change of one setting, evaluated as a run of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from calc import conventions
from calc.errors import Refused
from calc.memory.verdict import verdict
from calc.spec import ModelSpec
from calc.spec.run import Run

LOSS_CHUNKS = 8
"""Pieces of the loss to try."""
WORTH = 100
"""What saves less than one part in so many is not told."""
RANKS = 8
"""Data-parallel ranks to try ZeRO with where there is one: the GPUs of one server."""

QUANTIZED = "nf4:g64"
"""What to keep frozen weights in: QLoRA's format."""


class Knob(NamedTuple):
    """One change: what it is called, the options that make it, and the run that it leads to."""

    name: str
    options: str
    run: Run


@dataclass(frozen=True, slots=True)
class Change:
    """What one change does.

    peak: bytes of the worst rank then; saved: how many fewer. flops: of the same tokens, as a share more than before
    (0.33: a third more). gpus: that the run takes then. fits: GPU and host; None without a budget.
    """

    name: str
    options: str
    peak: int
    saved: int
    flops: float
    gpus: int
    fits: bool | None


def changes(spec: ModelSpec, run: Run, budget: int | None = None) -> list[Change]:
    """Changes of one setting that lower the peak, the one that saves the most first.

    What does not apply (a degree that does not divide, a setting that is there already) is left out, and what saves
    less than a hundredth.
    Errors: Refused where the run itself is.
    """
    before, work = verdict(spec, run).worst.peak, _work(spec, run)
    found = []
    for knob in knobs(run, spec.adapter is not None):
        try:
            after = verdict(spec, knob.run, budget)
        except Refused:
            continue
        peak = after.worst.peak
        if WORTH * (before - peak) >= before:
            more = 0.0 if work is None else _work(spec, knob.run) / work - 1
            gpus = knob.run.gpus
            found.append(Change(knob.name, knob.options, peak, before - peak, more, gpus, after.fits))
    return sorted(found, key=lambda change: -change.saved)


def knobs(run: Run, frozen: bool = False) -> Iterator[Knob]:
    """What there is to turn, whether or not the model allows it.

    frozen: whether an adapter leaves the rest as it is.
    """
    yield from _spread(run)
    if isinstance(run.batch, int) and run.batch > 1:
        half = run.batch // 2
        yield Knob(
            "half the batch" if run.mode == "inference" else "half the micro-batch",
            f"--batch {half}",
            run.changed(batch=half),
        )
    if frozen and run.mode == "training" and run.frozen != QUANTIZED:
        yield _knob(f"frozen weights in {QUANTIZED}", f"--frozen-dtype {QUANTIZED}", run, frozen=QUANTIZED)
    yield from (_of_training if run.mode == "training" else _of_inference)(run)


def _of_training(run: Run) -> Iterator[Knob]:
    for name, words in (("selective", "recompute attention"), ("full", "full checkpointing")):
        if run.checkpointing == "none" or (name == "full" and run.checkpointing == "selective"):
            yield Knob(words, f"--checkpointing {name}", run.changed(checkpointing=name))
    if run.checkpointing.startswith("full") and run.checkpoint_every != 1:
        yield _knob("checkpoint all layers", "--checkpoint-every 1", run, checkpoint_every=1)
    if run.usual_optimizer.startswith("adamw") and run.usual_optimizer != "adamw-8bit":
        yield _knob("8-bit optimizer", "--optimizer adamw-8bit", run, optimizer="adamw-8bit")
    if run.execution == "eager":
        yield _knob("flash attention", "--execution sdpa", run, execution="sdpa")
    yield from _fused(run)
    if run.loss_chunks == 1:
        yield _knob("loss in pieces", f"--loss-chunks {LOSS_CHUNKS}", run, loss_chunks=LOSS_CHUNKS)
    if run.recipe in ("fp32", "bf16-mixed"):
        yield _knob("weights in bf16", "--recipe bf16", run, recipe="bf16")


def _of_inference(run: Run) -> Iterator[Knob]:
    if run.dtype in ("fp32", "bf16", "fp16"):
        for name in ("fp8", "int4:g128"):
            yield Knob(f"weights in {name}", f"--dtype {name}", run.changed(dtype=name))
    if run.batched_tokens is None and run.engine is None and isinstance(run.batch, int) and run.batch > 1:
        one = {"batched_tokens": run.seq}
        yield _knob("one prompt at a time", f"--batched-tokens {run.seq}", run, **one)
    yield from _fused(run)
    if run.cache_dtype != "fp8":
        yield _knob("cache in fp8", "--cache-dtype fp8", run, cache_dtype="fp8")


def _fused(run: Run) -> Iterator[Knob]:
    if run.execution in (None, "eager", "sdpa"):
        yield _knob("fused kernels", "--execution compiled", run, execution="compiled")


def _spread(run: Run) -> Iterator[Knob]:
    """More of the GPUs' memory: what tensor- and data-parallel ranks divide."""
    yield _knob("tensor parallel ×2", f"--tp {2 * run.tp}", run, tp=2 * run.tp)
    if run.mode == "inference":
        return
    alone = run.dp * run.cp == 1
    dp = RANKS if alone else run.dp
    for stage in range(run.zero + 1 if not alone else 3, 4):
        options = f"--dp {dp} --zero {stage}" if alone else f"--zero {stage}"
        yield _knob(f"ZeRO-{stage}", options, run, dp=dp, zero=stage)


def _knob(name: str, options: str, run: Run, **changed: Any) -> Knob:
    return Knob(name, options, run.changed(**changed))


def _work(spec: ModelSpec, run: Run) -> Any:
    """FLOPs for each token that is trained on; None for a server, which computes nothing again."""
    if run.mode == "inference":
        return None
    training = run.changed(phase="training")
    return conventions.flops(spec, training).per_token(training.tokens)
