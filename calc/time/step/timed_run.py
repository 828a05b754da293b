"""From what is said of a run to the whole of it, where its time is asked for."""

from __future__ import annotations

from typing import Any

from calc.blocks.build import with_own_length
from calc.dtypes import Quantized, weight_dtype
from calc.errors import Refused
from calc.memory.conditions import check
from calc.sizes import is_array
from calc.spec import Lora, ModelSpec
from calc.spec.run import ExecutionName, Run, common_context, common_length
from calc.spec.run.optimizers import usual_optimizer
from calc.spec.run.precision import recipe, recipe_for

TIMED_EXECUTIONS: tuple[ExecutionName, ...] = ("eager", "sdpa", "compiled", "graph")
"""The executions whose kernels have times."""
PARTIAL = ("routers", "attention")
"""Graphs of a part of each layer."""
WHOLE = ("batch", "seq", "context", "dp", "tp", "pp", "cp", "ep", "expert_tp", "zero", "interleave", "micro_batches")
"""Fields that must be whole numbers: a time is no formula."""


def timed_run(spec: ModelSpec, run: Run | None = None, *, columns: bool = False, **words: Any) -> Run:
    """`run` with other words, and the usual ones where nothing is said; None says nothing.

    Lengths are the model's usual ones; what reads pictures has a length of its own. Attention is one kernel (`sdpa`),
    and what a stack compiles is compiled. Beside an adapter, a recipe of narrow inputs keeps the frozen weights in fp8.
    `gpus` stands for the dp that takes so many, and a general recipe for what a stack keeps in which format. In
    training `dtype` may name the recipe, and the optimizer is AdamW as PyTorch runs it under that recipe. A server
    divides no stream among tensor-parallel ranks unless it is told to. columns: whether sizes may be arrays, of which
    nothing is checked.
    Errors: Refused for words and sizes that no time is known of, and for a run that does not fit the model.
    """
    given = {} if run is None else {name: getattr(run, name) for name in run.model_fields_set}
    words = {name: word for name, word in words.items() if word is not None}
    trains = (given | words).get("phase") == "training"
    given |= recipe_for(words) if trains else words
    seq = given.get("seq")
    given["seq"] = common_length([spec]) if seq is None else seq
    if "context" not in given:
        given["context"] = common_context([spec], None if is_array(seq) else seq)
    given = _spread(given)
    given["mode"] = "training" if trains else "inference"
    stacked = Run(**{name: given[name] for name in ("mode", "stack", "recipe") if name in given})
    if trains and stacked.stack is not None:
        given["recipe"] = stacked.recipe
    given.setdefault("execution", stacked.usual_execution)
    if trains:
        given.setdefault("optimizer", usual_optimizer(given.get("recipe")))
        if spec.adapter is not None and recipe(given.get("recipe", "bf16-mixed")).inputs is not None:
            given.setdefault("frozen", "fp8")
    else:
        given["sequence_parallel"] = bool(given.get("sequence_parallel"))
    made = with_own_length(spec, Run(**given))
    _possible(spec, made, columns)
    return made


def check_graphs(run: Run) -> None:
    """Errors: Refused for graphs of a part of layers of which none is captured."""
    if run.checkpointing.startswith("full") and run.usual_graphs in PARTIAL:
        raise Refused(
            "graphs", "none or step beside full checkpointing, whose layers Megatron-Core captures none of", run.graphs
        )


def _spread(given: dict[str, Any]) -> dict[str, Any]:
    """`dp` in the place of `gpus`: as many replicas as there are GPUs for.

    Errors: Refused where one replica's GPUs do not divide them, or dp says otherwise.
    """
    gpus = given.pop("gpus", None)
    if gpus is None:
        return given
    one = given.get("tp", 1) * given.get("pp", 1) * given.get("cp", 1)
    if not is_array(gpus) and not is_array(one):
        if gpus % one:
            raise Refused("gpus", f"a multiple of tp * pp * cp = {one}", gpus)
        if given.get("dp", gpus // one) * one != gpus:
            raise Refused("gpus", f"dp * tp * pp * cp = {given['dp'] * one}", gpus)
        return given | {"dp": gpus // one}
    return given | {"dp": gpus / one}


def _possible(spec: ModelSpec, run: Run, columns: bool) -> None:
    """Errors: Refused for what no time is known of."""
    for name in WHOLE:
        value = getattr(run, name)
        if value is not None and type(value) is not int and not (columns and is_array(value)):
            raise Refused(name, "a whole number where a time is asked for", value)
    if not run.trains and run.checkpointing != "none":
        raise Refused("checkpointing", f"none in {run.phase}", run.checkpointing)
    if run.recompute and not (run.trains and run.checkpointing in ("none", "selective")):
        where = f"{run.checkpointing} checkpointing" if run.trains else run.phase
        raise Refused("recompute", f"none beside {where}", ", ".join(run.recompute))
    if run.trains:
        check_graphs(run)
    if not run.trains and run.expert_tp is not None:
        raise Refused("expert_tp", f"none in {run.phase}", run.expert_tp)
    ranks = run.pp * run.cp * run.ep
    if not run.trains and not is_array(ranks) and ranks > 1:
        raise Refused("plan", f"dp and tp alone in {run.phase}, whose pipelines are not modelled", "pp, cp or ep")
    kind = weight_dtype(run.dtype)
    if not run.trains and not isinstance(kind, Quantized) and kind.bits < 8:
        raise Refused("dtype", f"{run.dtype}:g128 or another format whose speed follows from its scales", run.dtype)
    if spec.adapter is not None and not isinstance(spec.adapter, Lora):
        raise Refused("adapter", "lora, or none, where a time is asked for", type(spec.adapter).__name__)
    check(spec, run)
    goes_on = spec.head is not None and (run.phase == "prefill" or spec.decodes)
    if run.phase in ("decode", "prefill") and not goes_on:
        raise Refused("phase", f"forward or training for a model that {spec.why_whole}", run.phase)
    if run.execution not in TIMED_EXECUTIONS:
        raise Refused("execution", "one whose kernels are known", run.execution)
