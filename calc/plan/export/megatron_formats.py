"""Number formats of the optimizer and of gradients, as Megatron-Core's flags and NeMo's settings say them.

Source: megatron/training/arguments.py and megatron/core/optimizer/optimizer_config.py (core_r0.13.0): with
--use-precision-aware-optimizer moments may be in bf16; without it every one of these formats must be fp32. Gradients
are summed in fp32 unless --grad-reduce-in-bf16 is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.spec.run import Run

OPTIMIZERS = {"fp32": "adamw", "bf16": "adamw-bf16"}
"""Format of both moments -> optimizer."""
NOT_DELAYED = {"layernorm", "moe_act"}
DELAYED, CURRENT = "delayed", "tensorwise"


class FormatWords(NamedTuple):
    """Names of the settings of one tool. aware: of the precision-aware optimizer; distributed: of that which ranks
    divide. moments, others: of what is kept in which format. wide, narrow: how fp32 and bf16 are said; also: other
    words for formats."""

    aware: str
    distributed: str
    moments: tuple[str, str]
    others: tuple[str, str]
    wide: str
    narrow: str
    also: Mapping[str, str] = {}


def read_formats(
    found: Mapping[str, str], names: FormatWords, recipe: str, narrow: bool, aware: bool, where: str
) -> dict[str, str]:
    """The recipe and the optimizer of a launch file whose products are those of `recipe`. narrow: whether gradients are
    summed in bf16. aware: whether the precision-aware optimizer is on, and ranks divide it.

    Errors: Refused for formats that no optimizer or recipe here has, and for narrow ones without what they ask for.
    """
    said = {name: found.get(name, names.wide) for name in (*names.moments, *names.others)}
    known = {names.wide: "fp32", names.narrow: "bf16", **names.also}
    held = {name: known.get(word) for name, word in said.items()}
    for name in names.others:
        if held[name] != "fp32":
            raise Refused(f"{where}: {name}", f"{names.wide}: what others hold is not described", said[name])
    first, second = names.moments
    moments = held[first]
    if moments is None or moments != held[second]:
        expected = f"{names.wide} or {names.narrow}, as {second}: moments in other formats are not described"
        both = said[first] if said[first] == said[second] else f"{said[first]} and {said[second]}"
        raise Refused(f"{where}: {first}", expected, both)
    if moments != "fp32" and not aware:
        raise Refused(f"{where}: {first}", f"{names.wide} without {names.aware} and {names.distributed}", said[first])
    return narrowed(recipe, narrow) | ({} if moments == "fp32" else {"optimizer": OPTIMIZERS[moments]})


def narrowed(recipe: str, narrow: bool) -> dict[str, str]:
    """The words of a recipe whose gradients are summed in bf16, where they are: of 16 bits it has a name of its own."""
    if not narrow:
        return {"recipe": recipe}
    return {"recipe": "bf16-zero"} if recipe == "bf16-master" else {"recipe": recipe, "gradient_dtype": "bf16"}


def scaling(run: Run) -> str | None:
    """Megatron-Core's fp8_recipe where it refuses its usual one, delayed scaling: beside norms and experts' activations
    that are made anew (megatron/core/transformer/transformer_config.py, `__post_init__`)."""
    return CURRENT if run.recipe == "fp8" and NOT_DELAYED & set(run.recompute) else None


def check_scaling(words: Mapping[str, Any], said: str | None, where: str) -> None:
    """Errors: Refused for what a file says of fp8_recipe where Megatron-Core would refuse it. words: of its plan."""
    if words["recipe"] == "fp8" and NOT_DELAYED & set(words.get("recompute", ())) and said in (None, DELAYED):
        expected = f"{CURRENT}, or another but {DELAYED}, beside {' and '.join(sorted(NOT_DELAYED))} made anew"
        raise Refused(where, expected, DELAYED)
