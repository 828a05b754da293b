"""What an answer is to: the run, as the last line of a table and as an object in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calc.output.tables import Table
from calc.spec.run import Run


def run_record(run: Run, execution: str | None = None) -> dict[str, Any]:
    """The run that was answered, defaults included.

    execution: which kernels the answer takes where the run leaves it open; None: it depends on none.
    """
    formats = {"recipe": run.recipe} if run.trains else {"weights": run.dtype, "cache": run.cache_dtype}
    return {
        **{name: getattr(run, name) for name in ("dp", "tp", "pp", "cp", "ep", "zero")},
        "gpus": run.gpus,
        "micro_batches": run.passes_a_step,
        "batch": run.batch,
        "seq": run.seq,
        "context": run.context if run.phase == "decode" else None,
        "tokens_a_step": run.step_tokens,
        "formats": formats,
        "execution": None if execution is None else run.execution or execution,
    }


def run_line(record: Mapping[str, Any]) -> str:
    """A record of `run_record` in one line."""
    degrees = [f"{name} {record[name]}" for name in ("dp", "tp", "pp", "cp", "ep", "zero")]
    passes, tokens = record["micro_batches"], record["tokens_a_step"]
    counts = [f"{passes} micro-batch{'es' * (passes != 1)}", f"{tokens:,} token{'s' * (tokens != 1)} a step"]
    formats = [name if kind == "recipe" else f"{kind} {name}" for kind, name in record["formats"].items() if name]
    return f"run: {', '.join([*degrees, *counts, *formats, *filter(None, [record['execution']])])}"


def with_run(tables: Sequence[Table], record: Mapping[str, Any]) -> list[Table]:
    """`tables` with the run below the last of them."""
    *before, last = tables
    note = f"{last.note}\n{run_line(record)}" if last.note else run_line(record)
    return [*before, last._replace(note=note)]
