"""How InferenceX starts its engines, where that is not as engines start by themselves."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from calc.serve.running import Hold

FILE = Path(__file__).with_name("launched.toml")


ROUNDS = 10
"""Requests for each that is under way, as InferenceMAX sends them where nothing else is known."""


@dataclass(frozen=True, slots=True)
class Launched:
    """cache: format of keys and values; budget: tokens of a step; None: as the engine has it. polls: steps between two
    looks at who has come. rounds: requests that its benchmark sends for each that is under way. hold: for how long
    prompts wait for others to be read with."""

    cache: str | None = None
    budget: int | None = None
    polls: int = 1
    rounds: int = ROUNDS
    hold: Hold | None = None


class Sharing(NamedTuple):
    """GPUs that share a sequence, groups of them that each have sequences of their own, and GPUs that share experts."""

    tp: int = 1
    attention_dp: int = 1
    ep: int = 1


ALONE = Sharing()


def launched(
    engine: str,
    family: str,
    gpu: str,
    dtype: str,
    lengths: tuple[int, int],
    concurrency: float,
    sharing: Sharing = ALONE,
    measured: str = "9999",
) -> Launched:
    """What its scripts give an engine for a model on a GPU: the first entry that fits all of what it names. lengths: of
    prompt and answer. sharing: how its GPUs share them. measured: when, as a table writes it, the year first."""
    asked = {"engine": engine, "family": family, "gpu": gpu, "dtype": dtype, "tp": sharing.tp, "ep": sharing.ep}
    asked["lengths"] = list(lengths)
    for each in _entries():
        fits = all(asked[name] in each[name] for name in asked if name in each)
        if fits and measured >= each.get("since", "") and concurrency > each.get("above", 0):
            budget = lengths[0] * each["prompts"] if "prompts" in each else each.get("budget")
            polls = [own for least, own in each.get("polls", []) if concurrency >= least]
            rounds = [own for least, own in each.get("rounds", []) if lengths[1] >= least]
            hold = _hold(each, lengths, sharing)
            return Launched(
                each.get("cache"), budget, polls[-1] if polls else 1, rounds[-1] if rounds else ROUNDS, hold
            )
    return Launched()


def _hold(entry: dict[str, Any], lengths: tuple[int, int], sharing: Sharing) -> Hold | None:
    """What an entry holds prompts back for: until steps are full, of some lengths on few GPUs; or until each rank of
    attention has one."""
    full, balance = entry.get("hold"), entry.get("balance")
    if full and sharing.tp * sharing.attention_dp < full["fewer"] and list(lengths) == full["lengths"]:
        return Hold(full["steps"], part=full["part"])
    if balance and sharing.attention_dp > 1:
        return Hold(balance["steps"], prompts=sharing.attention_dp, further=balance["further"])
    return None


@cache
def _entries() -> list[dict[str, Any]]:
    return tomllib.loads(FILE.read_text())["entries"]
