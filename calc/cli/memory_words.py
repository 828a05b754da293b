"""What commands that speak of memory are asked with."""

from __future__ import annotations

from typing import Any

from calc.ask.registry import MEMORY_USES
from calc.cli.echo import run_record
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.spec.run.precision import recipe_for

MEMORY_FIELDS = tuple(name for name in Run.model_fields if name in MEMORY_USES and name != "rank")
"""What memory depends on, in the order of the nodes; whose rank is told is not asked of a command."""
DTYPE = "Of weights, as fp8 or int4:g128; in training the recipe, as --recipe."


def memory_words(words: dict[str, Any]) -> dict[str, Any]:
    """The words of a run whose memory is asked for: --dtype names the recipe of one that trains."""
    return dict(words) if words.get("mode") == "inference" else recipe_for(words, "--dtype")


def memory_record(run: Run, spec: ModelSpec) -> dict[str, Any]:
    """The run as an answer about memory repeats it."""
    trained = run.changed(phase="training") if run.mode == "training" else run
    record = run_record(trained, run.usual_execution, uses=MEMORY_FIELDS, specs=[spec])
    if run.mode == "inference":
        from calc.memory.cache import cache_dtype  # most questions are not about memory, and it is long to load

        record["formats"]["cache"] = cache_dtype(run)
    return {"mode": run.mode, **record}
