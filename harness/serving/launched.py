"""How InferenceX starts its engines, where that is not as engines start by themselves."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("launched.toml")


ROUNDS = 10
"""Requests for each that is under way, as InferenceMAX sends them where nothing else is known."""


@dataclass(frozen=True, slots=True)
class Launched:
    """cache: format of keys and values; budget: tokens of a step; None: as the engine has it. polls: steps between two
    looks at who has come. rounds: requests that its benchmark sends for each that is under way."""

    cache: str | None = None
    budget: int | None = None
    polls: int = 1
    rounds: int = ROUNDS


def launched(engine: str, family: str, gpu: str, dtype: str, lengths: tuple[int, int], concurrency: float) -> Launched:
    """What its scripts give an engine for a model on a GPU: the first entry that fits all of what it names. lengths: of
    prompt and answer."""
    asked = {"engine": engine, "family": family, "gpu": gpu, "dtype": dtype}
    for each in _entries():
        if all(asked[name] in each[name] for name in asked if name in each):
            budget = lengths[0] * each["prompts"] if "prompts" in each else each.get("budget")
            polls = [own for least, own in each.get("polls", []) if concurrency >= least]
            rounds = [own for least, own in each.get("rounds", []) if lengths[1] >= least]
            return Launched(each.get("cache"), budget, polls[-1] if polls else 1, rounds[-1] if rounds else ROUNDS)
    return Launched()


@cache
def _entries() -> list[dict[str, Any]]:
    return tomllib.loads(FILE.read_text())["entries"]
