"""Messages on stderr about what was asked."""

from __future__ import annotations

from collections.abc import Collection

import click

from calc.ask.registry import OF_INFERENCE, OF_TRAINING
from calc.blocks.build import vectors_of_pictures
from calc.cli.run_options import given
from calc.memory.optimizer_conditions import aware_anyway
from calc.output.notes import note, remark
from calc.plan.launchers import unlaunched as stack_refuses
from calc.sizes import ceil_div
from calc.spec import Frames, ModelSpec
from calc.spec.run import Run
from calc.spec.traced import Traced

_SERVED = frozenset(OF_INFERENCE) - {"dtype"}  # which in training names the recipe


def unused(uses: Collection[str], named: str) -> None:
    """Name the options of a run that were given on the command line though `named` does not depend on them.

    uses: the fields of a Run that matter. An option set to "none" or 0 asks for nothing and is passed over.
    """
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        idle = name in Run.model_fields and name not in uses
        if idle and given(name) and context.params.get(name) not in ("none", 0):
            remark(f"{option.opts[0]} changes nothing in {named}")


def unused_in_mode(run: Run) -> None:
    """Name the options that were given though memory, in training or in inference, does not depend on them."""
    other = _SERVED if run.mode == "training" else OF_TRAINING
    for option in click.get_current_context().command.params:
        if option.name in other and given(option.name or ""):
            remark(f"{option.opts[0]} changes nothing in {run.mode}")


def undivided(run: Run) -> None:
    """Say so where a ZeRO stage has no ranks to divide anything among."""
    if run.zero and run.dp * run.cp == 1:
        remark(f"--zero {run.zero} divides nothing among one data-parallel rank; add --dp")


def idle(run: Run) -> None:
    """Name the options of a training that change nothing beside the others."""
    if run.checkpoint_every != 1 and not run.checkpointing.startswith(("full", "selective-op")):
        remark("--checkpoint-every changes nothing without --checkpointing full or selective-op")
    if run.offload != "optimizer" and given("offload_fraction"):
        remark("--offload-fraction changes nothing without --offload optimizer")
    if run.offload != "activations" and given("offload_layers"):
        remark("--offload-layers changes nothing without --offload activations")
    if run.precision_aware and (why := aware_anyway(run)):
        remark(f"--precision-aware changes nothing {why}")


def unlaunched(run: Run, said: Collection[str]) -> None:
    """A note on what was said and the stack cannot be told to do."""
    for name, value in stack_refuses(run, said):
        option, told = name.replace("_", "-"), value if isinstance(value, str | int) else ",".join(value)
        remark(f"{run.stack.name} does not launch --{option} {told}: `plan` leaves it out (calc/data/launchers.toml)")


def of_inputs(spec: ModelSpec, frames: int | None, uses: Collection[str] = Run.model_fields) -> None:
    """Name the options that tell of sound and of pictures where `spec` reads none, or none of that length.

    frames: of --source-seq, which is --frames too. uses: the fields that the question depends on, of which `unused`
    names no one.
    """
    if isinstance(spec, Traced):
        return
    said = {name for name in ("source_seq", "images", "image") if name in uses and given(name)}
    if "source_seq" in said and not spec.takes_source:
        _without(spec, "--source-seq (--frames)", "a model without an encoder, which hears nothing")
    if "images" in said and not spec.takes_pictures:
        _without(spec, "--images", "a model without a vision tower beside its text")
    if "image" in said and not spec.takes_pictures and not spec.is_of_pictures:
        _without(spec, "--image", "a model that sees nothing")
    front = spec.embedding if spec.encoder is None else spec.encoder.embedding
    if frames is not None and isinstance(front, Frames) and front.n_positions and front.n_frames not in (None, frames):
        whole = f"{front.n_frames:,}"
        note(spec, f"--frames {frames:,} are not the {whole} of its positions; transformers takes {whole} alone")


def of_places(spec: ModelSpec, run: Run) -> None:
    """Say so where pictures give more vectors than a batch has tokens, whose places they take."""
    if not run.images or not spec.takes_pictures or run.phase == "decode":
        return
    vectors, places = vectors_of_pictures(spec, run.load()), run.batch * run.seq
    if vectors > places:
        least = ceil_div(vectors, run.batch)
        told = f"the {vectors:,} vectors of --images {run.images} take the places of more tokens than there are"
        note(spec, f"{told} ({places:,}); --seq {least} would hold them")


def _without(spec: ModelSpec, option: str, why: str) -> None:
    """Say that an option changes nothing, and where a model reads pictures and nothing else, what tells of those."""
    if spec.is_of_pictures:
        why = "one picture a sequence: --image tells its size, --batch how many"
    note(spec, f"{option} changes nothing for {why}")
