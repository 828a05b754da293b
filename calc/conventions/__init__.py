"""Conventions of counting: each one documented formula, chosen by name and never by accident."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from calc.conventions.base import Convention, decoder
from calc.conventions.chinchilla import CHINCHILLA, CHINCHILLA_6ND
from calc.conventions.deepseek import DEEPSEEK
from calc.conventions.executed import CAUSAL_EXACT, CAUSAL_HALF, TORCH, caveats_of_reading
from calc.conventions.kaplan import KAPLAN
from calc.conventions.lecture import LECTURE
from calc.conventions.llm_foundry import LLM_FOUNDRY
from calc.conventions.megatron import MEGATRON
from calc.conventions.palm import PALM
from calc.conventions.torchtitan import TORCHTITAN
from calc.errors import Refused
from calc.quantities.flops import Flops
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.run import Run

CONVENTIONS: tuple[Convention, ...] = (
    TORCH,
    CAUSAL_HALF,
    CAUSAL_EXACT,
    LECTURE,
    KAPLAN,
    MEGATRON,
    CHINCHILLA,
    CHINCHILLA_6ND,
    PALM,
    LLM_FOUNDRY,
    DEEPSEEK,
    TORCHTITAN,
)
BY_NAME = {convention.name: convention for convention in CONVENTIONS}
ALIASES = {"full": "torch"}
"""Another name of a convention -> its own."""


def find(name: str) -> Convention:
    """The convention called `name`. Errors: Refused, with the known names."""
    convention = BY_NAME.get(ALIASES.get(name, name))
    if convention is None:
        raise Refused("convention", f"one of {', '.join((*BY_NAME, *ALIASES))}", name)
    return convention


def caveats(spec: ModelSpec, run: Run) -> tuple[str, ...]:
    """What the count of a run's FLOPs does not see of a model, and what it takes for granted, a sentence each."""
    convention = find(run.convention)
    return (*convention.caveats(spec), *(caveats_of_reading(spec, run) if convention.any_model else ()))


def flops(spec: ModelSpec, run: Run) -> Flops:
    """FLOPs of the whole batch under `run.convention`.

    Errors: Refused for an unknown convention, for a phase or (in training) a checkpointing mode that it does not
    define, and for a model whose sizes its formula cannot read.
    """
    convention = find(run.convention)
    if run.phase not in convention.phases:
        raise Refused("phase", f"{' or '.join(convention.phases)} under {convention.name}", run.phase)
    if run.phase in ("prefill", "decode") and not spec.decodes:
        raise Refused("phase", "forward or training, since this model does not go on token by token", run.phase)
    if run.phase == "training" and run.checkpointing not in convention.checkpointing:
        expected = f"{' or '.join(convention.checkpointing)} under {convention.name}"
        raise Refused("checkpointing", expected, run.checkpointing)
    if not convention.any_model:
        decoder(spec)
        if run.document is not None:
            raise Refused(
                "document", f"none under {convention.name}, whose formula knows whole sequences", run.document
            )
        if run.mtp:
            raise Refused("mtp", f"false under {convention.name}, whose formula has no such modules", True)
    return convention.count(spec, run)


def params(spec: ModelSpec, name: str) -> Mapping[str, Size] | None:
    """The terms of what convention `name` calls N; None where that is every parameter of the model.

    Errors: Refused for an unknown convention, and for a model whose sizes its formula cannot read.
    """
    convention = find(name)
    if convention.params is None:
        return None
    decoder(spec)
    return convention.params(spec)


class Comparison(NamedTuple):
    """What one convention reports. flops is None, and `reason` says why, where it does not count such a run.

    ratio: its total over that of `torch`.
    """

    convention: Convention
    flops: Flops | None
    ratio: Size | None
    reason: str


def compare(spec: ModelSpec, run: Run) -> list[Comparison]:
    """What every convention reports for the same run; `run.convention` is ignored.

    Errors: Refused where even `torch`, which counts every model, cannot count it.
    """
    executed = flops(spec, run.changed(convention=TORCH.name)).total
    rows: list[Comparison] = []
    for convention in CONVENTIONS:
        try:
            count = flops(spec, run.changed(convention=convention.name))
            rows.append(Comparison(convention, count, count.total / executed, ""))
        except Refused as refused:
            rows.append(Comparison(convention, None, None, str(refused)))
    return rows
