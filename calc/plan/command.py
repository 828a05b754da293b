"""The `predict` line that times a plan alone."""

from __future__ import annotations

import shlex

from calc.architectures.models import load_model, preset_names
from calc.plan.question import Question
from calc.spec.run import Run

SIZES = ("tp", "pp", "cp", "ep", "zero", "interleave", "micro_batches", "batch")

FLAGS = {"mtp": "--mtp", "fp8_param_gather": "--fp8-param-gather", "precision_aware": "--precision-aware"}


def predict_command(question: Question, run: Run) -> str | None:
    """The line whose seconds are those of the plan; what is as usual is left out where it can be. None where nothing
    names the model."""
    model = _reference(question)
    if model is None:
        return None
    words = {"phase": "training", "cluster": question.place or question.cluster.name, "gpus": run.gpus}
    words |= {name: getattr(run, name) for name in SIZES} | {"dtype": run.recipe}
    words |= {} if question.spec.has_own_length else {"seq": run.seq}
    words |= {"checkpointing": run.checkpointing, "schedule": run.schedule, **question.words}
    if run.expert_tp is not None:
        words["expert_tp"] = run.expert_tp
    if run.checkpoint_every > 1:
        words["checkpoint_every"] = run.checkpoint_every
    if run.recompute:
        words["recompute"] = ",".join(run.recompute)
    if run.offload != "none":
        words["offload"] = run.offload
    if run.offload == "optimizer":
        words["offload_fraction"] = run.offload_fraction
    if run.layers_on_host is not None:
        words["offload_layers"] = run.layers_on_host
    if run.stages is not None:
        words["stages"] = ",".join(map(str, run.stages))
    options = [flag for name, flag in FLAGS.items() if words.pop(name, False)]
    options += [part for name, word in words.items() for part in (f"--{name.replace('_', '-')}", str(word))]
    if run.sequence_parallel is False:
        options.append("--no-sequence-parallel")
    return shlex.join(["python", "-m", "calc", "predict", model, *question.read_as, *options, "--json"])


def _reference(question: Question) -> str | None:
    """What names the model: the user's own words for it, or a preset that it is equal to."""
    name = question.spec.name
    if question.model or name not in preset_names():
        return question.model or None
    return name if load_model(name) == question.spec else None
