"""What Megatron-Bridge's recipes say of how its published steps ran, where the rows do not."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from calc.spec.run import Graphs
from calc.spec.stack import Stack

RECIPES = Path(__file__).parent / "bridge_recipes.toml"
FORMATS = {"": "FP8", "FP8-CS": "FP8", "FP8-CS (FP8-MX)": "FP8", "FP8-MX": "MXFP8"}
"""Number formats as older releases call them -> as newer ones do; of two, the first, whose tokens a row has first."""


GRAPHS: dict[str, Graphs] = {
    "routers in graphs": "routers",
    "attention in graphs": "attention",
    "layers in graphs": "step",
    "step in graphs": "step",
}
"""What a recipe sets -> what graphs launch, as a run has it."""


class Recipe(NamedTuple):
    """recompute: modules that are computed again. sets: what else it sets, as the file says. gradients: the format in
    which they are summed. waiting: layers whose activations wait on the host."""

    recompute: tuple[str, ...]
    sets: tuple[str, ...]
    gradients: str
    waiting: int | None


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(RECIPES.read_text())


def fp8_words(model: str, precision: str) -> dict[str, Any]:
    """The words of a row's fp8, by its own words; none where it does not say which."""
    its = _read()["fp8"]
    scaling = its["scalings"].get(FORMATS.get(precision, precision)) if precision else None
    if scaling is None:
        return {}
    return {"fp8_recipe": scaling} | ({} if model in its["bf16"] else {"fp8_param_gather": True})


@cache
def _recipes() -> dict[tuple[str, str, str, str], Recipe]:
    found, read = {}, _read()
    for model, systems in read["recipes"].items():
        for system, recipes in systems.items():
            for each in recipes:
                again, sets = (tuple(each.get(name, ())) for name in ("recompute", "sets"))
                recipe = Recipe(again, sets, read["gradients"], each.get("waiting"))
                found |= {(model, system, each["precision"], release): recipe for release in each["releases"]}
    return found


def recipe_of(model: str, system: str, precision: str, release: str) -> Recipe | None:
    """The recipe of a row, by its own words; None where none has its plan."""
    return _recipes().get((model, system, FORMATS.get(precision, precision), release.split()[0]))


def as_set(stack: Stack, sets: tuple[str, ...]) -> Stack:
    """`stack` with what a recipe sets otherwise."""
    changed: dict[str, object] = {}
    for words, graphs in GRAPHS.items():
        if words in sets:
            changed["graphs"] = graphs
    if "overlap" in sets:
        changed["overlap"] = stack.overlap.model_copy(update={"experts": True})
    if "all-to-all" in sets:
        changed |= {"once_a_rank": False, "deepep": None}
    return stack.model_copy(update=changed) if changed else stack
