"""The `predict` line that times a plan alone."""

from __future__ import annotations

import shlex

from calc.plan.question import Question
from calc.spec.run import Run

SIZES = ("tp", "pp", "cp", "ep", "zero", "interleave", "micro_batches", "batch")


def predict_command(question: Question, run: Run) -> str:
    """The line whose seconds are those of the plan; what is as usual is left out where it can be."""
    words = {"phase": "training", "cluster": question.place or question.cluster.name, "gpus": run.gpus}
    words |= {name: getattr(run, name) for name in SIZES} | {"seq": run.seq, "dtype": run.recipe}
    words |= {"checkpointing": run.checkpointing, "schedule": run.schedule, **question.words}
    options = [part for name, word in words.items() for part in (f"--{name.replace('_', '-')}", str(word))]
    if run.sequence_parallel is False:
        options.append("--no-sequence-parallel")
    return shlex.join(["python", "-m", "calc", "predict", question.model or question.spec.name, *options, "--json"])
