"""What Megatron-Core computes again in backward, by its words, which are NeMo's too.

Source: megatron/core/transformer/transformer_config.py (core_r0.13.0): recompute_granularity, recompute_modules,
recompute_method and recompute_num_layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calc.errors import Refused
from calc.plan.export.launch import Launch
from calc.plan.export.settings import one_of, whole
from calc.spec.run import MODULES, Run

CORE = "core_attn"
"""Attention's core, as Megatron-Core calls it."""


def granularity(run: Run) -> str | None:
    """Megatron-Core's recompute_granularity; None where nothing is computed again."""
    return run.checkpointing if run.checkpointing != "none" else "selective" if run.recompute else None


def modules_written(run: Run) -> tuple[str, ...] | None:
    """Megatron-Core's recompute_modules; None where they are as usual, attention's core alone."""
    if not run.recompute:
        return None
    core = run.checkpointing == "selective" and CORE not in run.recompute
    return (CORE,) * core + run.recompute


def modules_read(modules: Sequence[str] | None, where: str) -> dict[str, Any]:
    """The words of selective recomputation of these modules; None: of attention's core. Errors: Refused for modules
    that are not described."""
    if modules is None:
        return {"checkpointing": "selective"}
    for name in modules:
        if name not in MODULES:
            raise Refused(where, f"one of {', '.join(MODULES)}", name)
    others = tuple(name for name in modules if name != CORE)
    return {"checkpointing": "selective" if CORE in modules else "none"} | ({"recompute": others} if others else {})


def recomputed(launch: Launch) -> tuple[str, int]:
    """(method, layers) by which Megatron-Core is told which layers are checkpointed: each by itself, or the first so
    many of every piece of a stage."""
    run, layers = launch.run, launch.question.spec.n_layers
    if run.checkpoint_every == 1:
        return "uniform", 1
    pieces = run.pp * run.interleave
    return "block", -(-layers // (pieces * run.checkpoint_every))


def checkpointed(found: Mapping[str, Any], method: str, layers: str, where: str) -> int | None:
    """The layers of every piece that are checkpointed, None where all are; by the names of two settings.

    Errors: Refused for another method, and for several layers that are checkpointed as one.
    """
    number = whole(found, layers, where, 1)
    if one_of(found, method, {"uniform": False, "block": True}, "uniform", where):
        return number
    if number != 1:
        raise Refused(f"{where}: {layers}", "1, each layer by itself, or the method block", number)
    return None
