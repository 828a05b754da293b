"""Number formats of weights, gradients and the optimizer, as Megatron-Core's flags and NeMo's settings say them.

Source: megatron/training/arguments.py and megatron/core/optimizer/optimizer_config.py (core_r0.13.0): with
--use-precision-aware-optimizer moments may be in bf16; without it every one of these formats must be fp32. Gradients
are summed in fp32 unless --grad-reduce-in-bf16 is given. Of MXFP8 matrices are gathered in the place of gradients or
not at all (core/distributed/param_and_grad_buffer.py; Transformer Engine's replace_raw_data), but under Megatron-FSDP,
which has arguments.py turn that off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.plan.export.settings import one_of
from calc.spec.run import Run
from calc.spec.run.narrow_weights import FP8_RECIPES

OPTIMIZERS = {"fp32": "adamw", "bf16": "adamw-bf16"}
"""Format of both moments -> optimizer."""
DELAYED = "delayed"


class FormatWords(NamedTuple):
    """Names of the settings of one tool. aware: of the precision-aware optimizer; distributed: of that which ranks
    divide. moments, gradients, weights: of what is kept in which format. alone: whether that of gradients is enough for
    them to be summed so. wide, narrow: how fp32 and bf16 are said; also: other words for formats."""

    aware: str
    distributed: str
    moments: tuple[str, str]
    gradients: str
    weights: str
    alone: bool
    wide: str
    narrow: str
    also: Mapping[str, str] = {}


class Fp8Words(NamedTuple):
    """Names of the settings of one tool's fp8. products: what has them in fp8. scaling: what shares a scale. gathered:
    that matrices are kept and gathered so, the one in use and older ones. reused: that gradients' buffer serves."""

    products: str
    scaling: str
    gathered: tuple[str, ...]
    reused: tuple[str, ...]


def fp8_settings(run: Run, names: Fp8Words) -> Iterator[tuple[str, Any]]:
    """What says how a plan in fp8 keeps and gathers matrices."""
    yield names.scaling, scaling(run)
    yield names.gathered[0], run.fp8_param_gather
    reuses = run.fp8_param_gather and run.usual_fp8_recipe == "mxfp8" and run.zero < 3
    yield from ((name, True) for name in names.reused if reuses)


def read_fp8(
    found: Mapping[str, str], names: Fp8Words, own: Mapping[str, Any], on: Callable[[str], bool], where: str
) -> dict[str, Any]:
    """What a file says of scales and of how matrices are kept, off or on. own: its recipe and stage of ZeRO.

    Errors: Refused for scales that are not described, and for what Megatron-Core would refuse.
    """
    gathers = next((name for name in names.gathered if on(name)), None)
    if own["recipe"] != "fp8":
        if gathers is not None:
            raise Refused(f"{where}: {gathers}", f"none without {names.products}", found[gathers] or "given")
        return {"fp8_recipe": None, "fp8_param_gather": False}
    shares = one_of(found, names.scaling, {name: name for name in FP8_RECIPES}, DELAYED, where)
    reused = all(map(on, names.reused))
    if gathers and shares == "mxfp8" and not reused and own["zero"] < 3:
        raise Refused(
            f"{where}: {names.reused[0]}", f"given beside {gathers} with mxfp8, as Megatron-Core asks", "none"
        )
    return {"fp8_recipe": shares, "fp8_param_gather": gathers is not None}


def read_formats(
    found: Mapping[str, str],
    names: FormatWords,
    recipe: str,
    narrow: bool,
    on: Callable[[str], bool],
    divided: bool,
    where: str,
) -> dict[str, Any]:
    """The recipe and the optimizer of a launch file whose products are those of `recipe`; what is off is said too, so
    that nothing stands in its place. narrow: whether gradients are summed in bf16, as far as another setting says. on:
    whether a setting is. divided: whether ranks divide the optimizer.

    Errors: Refused for formats that no optimizer or recipe here has, and for narrow ones without what they ask for.
    """
    aware = on(names.aware)
    if aware and not divided:
        raise Refused(f"{where}: {names.aware}", f"none without {names.distributed}", found[names.aware] or "given")
    known = {names.wide: "fp32", names.narrow: "bf16", **names.also}

    def held(name: str) -> str | None:
        return known.get(found.get(name, names.wide))

    if held(names.weights) != "fp32":
        raise Refused(f"{where}: {names.weights}", f"{names.wide}: others are not described", found[names.weights])
    first, second = names.moments
    moments = held(first)
    if moments is None or moments != held(second):
        expected = f"{names.wide} or {names.narrow}, as {second}: moments in other formats are not described"
        one, other = (found.get(name, names.wide) for name in names.moments)
        raise Refused(f"{where}: {first}", expected, one if one == other else f"{one} and {other}")
    gradients = held(names.gradients)
    if gradients is None:
        raise Refused(f"{where}: {names.gradients}", f"{names.wide} or {names.narrow}", found[names.gradients])
    for name, format in ((first, moments), (names.gradients, gradients)):
        if format != "fp32" and not aware:
            expected = f"{names.wide} without {names.aware}"
            raise Refused(f"{where}: {name}", expected, found[name])
    if gradients == "bf16" and not (narrow or names.alone):
        raise Refused(
            f"{where}: {names.gradients}", f"{names.wide} of gradients that are summed so", found[names.gradients]
        )
    own: dict[str, Any] = {"optimizer": OPTIMIZERS[moments]}
    own |= {"precision_aware": aware} if moments == "fp32" else {}  # which narrow ones ask for by themselves
    return narrowed(recipe, narrow or gradients == "bf16") | own


def narrowed(recipe: str, narrow: bool) -> dict[str, str | None]:
    """The words of a recipe whose gradients are summed in bf16, where they are: of 16 bits it has a name of its own."""
    if not narrow:
        return {"recipe": recipe, "gradient_dtype": None}
    return (
        {"recipe": "bf16-zero", "gradient_dtype": None}
        if recipe == "bf16-master"
        else {"recipe": recipe, "gradient_dtype": "bf16"}
    )


def scaling(run: Run) -> str | None:
    """Megatron-Core's fp8_recipe: that of the run; its usual one, delayed scaling, is not said unless the run does."""
    if run.recipe != "fp8":
        return None
    return run.fp8_recipe or (None if run.usual_fp8_recipe == DELAYED else run.usual_fp8_recipe)
