"""Conventions of counting: each one documented formula, chosen by name and never by accident."""

from __future__ import annotations

from dataclasses import replace

from calc.conventions.base import Convention, decoder
from calc.conventions.chinchilla import CHINCHILLA, CHINCHILLA_6ND
from calc.conventions.deepseek import DEEPSEEK
from calc.conventions.executed import CAUSAL_EXACT, CAUSAL_HALF, TORCH
from calc.conventions.kaplan import KAPLAN
from calc.conventions.lecture import LECTURE
from calc.conventions.llm_foundry import LLM_FOUNDRY
from calc.conventions.megatron import MEGATRON
from calc.conventions.palm import PALM
from calc.conventions.torchtitan import TORCHTITAN
from calc.errors import Refused
from calc.quantities.flops import Flops
from calc.query import Query
from calc.spec import ModelSpec

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


def flops(spec: ModelSpec, query: Query) -> Flops:
    """FLOPs of the whole batch under `query.convention`.

    Errors: Refused for an unknown convention, for a phase or (in training) a checkpointing mode that it does not
    define, and for a model whose sizes its formula cannot read.
    """
    convention = find(query.convention)
    if query.phase not in convention.phases:
        raise Refused("phase", f"{' or '.join(convention.phases)} under {convention.name}", query.phase)
    if query.phase == "training" and query.checkpointing not in convention.checkpointing:
        expected = f"{' or '.join(convention.checkpointing)} under {convention.name}"
        raise Refused("checkpointing", expected, query.checkpointing)
    if not convention.any_model:
        decoder(spec)
    return convention.count(spec, query)


def compare(spec: ModelSpec, query: Query) -> list[tuple[Convention, Flops | None, str]]:
    """What every convention reports for the same run; `query.convention` is ignored.

    Each entry is (convention, FLOPs or None, why there are none: empty where there are).
    """
    rows: list[tuple[Convention, Flops | None, str]] = []
    for convention in CONVENTIONS:
        try:
            rows.append((convention, flops(spec, replace(query, convention=convention.name)), ""))
        except Refused as refused:
            rows.append((convention, None, str(refused)))
    return rows
