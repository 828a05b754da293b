"""Number formats of the optimizer and of gradients, as Megatron-Core's flags say them.

Source: megatron/training/arguments.py and megatron/core/optimizer/optimizer_config.py (core_r0.13.0): with
--use-precision-aware-optimizer moments may be in bf16; without it every one of these formats must be fp32. Gradients
are summed in fp32 unless --grad-reduce-in-bf16 is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calc.errors import Refused
from calc.spec.run import Run

AWARE = "--use-precision-aware-optimizer"
MOMENTS = ("--exp-avg-dtype", "--exp-avg-sq-dtype")
OTHERS = ("--main-grads-dtype", "--main-params-dtype")
NARROW_GRADIENTS = "--grad-reduce-in-bf16"
FORMATS = (AWARE, *MOMENTS, *OTHERS, NARROW_GRADIENTS)
OPTIMIZERS = {"fp32": "adamw", "bf16": "adamw-bf16"}
"""Format of both moments -> optimizer."""
NOT_DELAYED = {"layernorm", "moe_act"}
DELAYED, CURRENT = "delayed", "tensorwise"


def format_options(run: Run) -> Iterator[tuple[str, Any]]:
    """The flags of a run's formats; what stands on the host asks for the precision-aware optimizer too.

    Errors: Refused for narrow moments that each rank has whole: the precision-aware optimizer is a distributed one.
    """
    narrow = run.usual_optimizer == "adamw-bf16"
    if narrow and run.zero == 0 and run.dp * run.cp > 1:
        raise Refused("zero", "1 or more with moments in bf16, in Megatron-Core's flags", run.zero)
    yield AWARE, run.precision_aware
    yield from ((flag, "bf16" if narrow else None) for flag in MOMENTS)
    yield NARROW_GRADIENTS, run.precision.summed == "bf16"


def read_formats(found: Mapping[str, str], recipe: str, where: str) -> dict[str, str]:
    """The recipe and the optimizer of a launch file whose products are those of `recipe`.

    Errors: Refused for formats that no optimizer or recipe here has, and for narrow ones without the flag that they
    ask for.
    """
    for flag in OTHERS:
        if found.get(flag, "fp32") != "fp32":
            raise Refused(f"{where}: {flag}", "fp32: what others hold is not described", found[flag])
    first, second = (found.get(flag, "fp32") for flag in MOMENTS)
    if first != second or first not in OPTIMIZERS:
        expected = f"fp32 or bf16, as {MOMENTS[1]}: moments in other formats are not described"
        raise Refused(f"{where}: {MOMENTS[0]}", expected, first if first == second else f"{first} and {second}")
    if first != "fp32" and (AWARE not in found or "--use-distributed-optimizer" not in found):
        raise Refused(f"{where}: {MOMENTS[0]}", f"fp32 without {AWARE} and --use-distributed-optimizer", first)
    return narrowed(recipe, NARROW_GRADIENTS in found) | ({} if first == "fp32" else {"optimizer": OPTIMIZERS[first]})


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
