"""What an answer is to: the run, as the last line of a table and as an object in JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from calc.blocks.build import source_length, with_own_length
from calc.conventions.executed import absorbs
from calc.output.tables import Table
from calc.spec import Mla, ModelSpec
from calc.spec.recurrent import recurrent
from calc.spec.run import Run

FORMATS = {"weights": "dtype", "cache": "cache_dtype", "state": "state_dtype"}
"""What has a number format where nothing is trained -> the field that says it."""
WORDED = {
    "document": "documents of {:,} tokens",
    "expert_tp": "experts in {}",
    "gradient_dtype": "gradients in {}",
    "fp8_recipe": "{} scales",
    "fp8_param_gather": "weights gathered in fp8",
    "optimizer": "{}",
    "precision_aware": "precision-aware",
    "checkpointing": "{} checkpointing",
    "recompute": "{} again",
    "dropout": "dropout {}",
    "offload": "{} on the host",
    "offload_fraction": "{} of it",
    "offload_layers": "of {} layers",
    "source_seq": "source of {:,}",
    "images": "images {}",
    "latent_reading": "latents {}",
    "routing": "{} routing",
    "graphs": "{} in CUDA graphs",
}
"""How a line tells what stands in a record beside degrees, counts, formats and kernels."""


def run_record(
    run: Run, execution: str | None = None, *, uses: Collection[str], specs: Sequence[ModelSpec]
) -> dict[str, Any]:
    """The run that was answered, defaults included.

    execution: which kernels the answer takes where the run leaves it open; None: it depends on none. uses: the fields
    that the answer depends on, of which formats and what is told beside them are taken. specs: of which models.
    """
    run, each_its_own = _with_own_length(run, specs)
    units = {spec.unit for spec in specs}
    named = {"recipe": "recipe"} if run.trains else FORMATS
    named = {kind: name for kind, name in named.items() if name in uses and (kind != "state" or _recurrent(specs))}
    return {
        **{name: getattr(run, name) for name in ("dp", "tp", "pp", "cp", "ep", "zero")},
        "gpus": run.gpus,
        "micro_batches": run.passes_a_step,
        "batch": run.batch,
        "seq": None if each_its_own else run.seq,
        "context": run.context if run.phase == "decode" else None,
        "tokens_a_step": None if each_its_own else run.step_tokens,
        **({"unit": units.pop()} if len(units) == 1 and "tokens" not in units else {}),
        "formats": {kind: getattr(run, name) for kind, name in named.items()},
        "execution": None if execution is None else run.execution or execution,
        **{name: value for name, value in _further_words(run, specs).items() if name in uses},
    }


def _with_own_length(run: Run, specs: Sequence[ModelSpec]) -> tuple[Run, bool]:
    """The run with the length that its models have of themselves, where it is one; whether they are several."""
    if not specs or not all(spec.has_own_length for spec in specs):
        return run, False
    found = {with_own_length(spec, run).seq for spec in specs}
    return (run, True) if len(found) > 1 else (run.changed(seq=found.pop()), False)


def _further_words(run: Run, specs: Sequence[ModelSpec]) -> dict[str, Any]:
    """What an answer may depend on beside ranks, lengths and formats, where the run and the models have it."""
    found: dict[str, Any] = {}
    if run.trains:
        found = {} if run.expert_tp is None else {"expert_tp": run.expert_tp}
        found |= {} if run.gradient_dtype is None else {"gradient_dtype": run.gradient_dtype}
        found |= {} if run.fp8_recipe is None else {"fp8_recipe": run.fp8_recipe}
        found |= {"fp8_param_gather": True} if run.fp8_param_gather else {}
        found |= {"precision_aware": True} if run.precision_aware else {}
        found |= {"optimizer": run.usual_optimizer, "checkpointing": run.checkpointing, "dropout": run.dropout}
        if run.recompute:
            found["recompute"] = ", ".join(run.recompute)
        if run.graphs is not None:
            found["graphs"] = run.graphs
        if run.offload != "none":
            found["offload"] = run.offload
        if run.offload == "optimizer":
            found["offload_fraction"] = run.offload_fraction
        if run.layers_on_host is not None:
            found["offload_layers"] = run.layers_on_host
    if run.document is not None:
        found["document"] = run.document
    if any(spec.encoder is not None for spec in specs):
        found["source_seq"] = run.source_seq or _source(specs, run)
    elif run.source_seq is not None and any(spec.audio is not None or spec.reads_sound for spec in specs):
        found["source_seq"] = run.source_seq
    if any(spec.takes_pictures for spec in specs):
        found["images"] = run.images
    if any(spec.has_experts for spec in specs):
        found["routing"] = run.routing
    served = run.phase == "decode" or (run.mode == "inference" and not run.trains)
    if served and any(_latent(spec) for spec in specs):
        found["latent_reading"] = "absorbed" if absorbs(run) else "expanded"
    return found


def _source(specs: Sequence[ModelSpec], run: Run) -> int | None:
    """What the encoders of all models read where nothing is said; None where that differs."""
    lengths = {source_length(spec, run.seq) for spec in specs}
    return lengths.pop() if len(lengths) == 1 else None


def run_line(record: Mapping[str, Any]) -> str:
    """A record of `run_record` in one line."""
    degrees = [f"{name} {record[name]}" for name in ("dp", "tp", "pp", "cp", "ep", "zero")]
    passes, tokens, unit = record["micro_batches"], record["tokens_a_step"], record.get("unit", "tokens")
    read = [] if tokens is None else [f"{tokens:,} {unit.removesuffix('s') if tokens == 1 else unit} a step"]
    counts = [f"{passes} micro-batch{'es' * (passes != 1)}", *read]
    formats = [name if kind == "recipe" else f"{kind} {name}" for kind, name in record["formats"].items() if name]
    others = [_worded(words, record[name]) for name, words in WORDED.items() if _is_shown(name, record.get(name))]
    return f"run: {', '.join([*degrees, *counts, *formats, *filter(None, [record['execution']]), *others])}"


def _is_shown(name: str, value: Any) -> bool:
    """Whether a line tells of it: dropout where there is some, a part that is not all, and all else that is known."""
    if name == "offload_fraction":
        return value not in (None, 1)
    return bool(value) if name == "dropout" else value is not None


def _worded(words: str, value: Any) -> str:
    return words.format("no" if value == "none" else value)


def _recurrent(specs: Sequence[ModelSpec]) -> bool:
    """Whether a layer of one of the models keeps a state."""
    return any(map(recurrent, specs))


def _latent(spec: ModelSpec) -> bool:
    return any(isinstance(mixer, Mla) for group in spec.layers for mixer in group.mixers)


def with_run(tables: Sequence[Table], record: Mapping[str, Any]) -> list[Table]:
    """`tables` with the run below the last of them."""
    *before, last = tables
    note = f"{last.note}\n{run_line(record)}" if last.note else run_line(record)
    return [*before, last._replace(note=note)]
