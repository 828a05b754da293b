"""What scales in fp8, and keeping and gathering matrices so, ask of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from calc.dtypes import dtype
from calc.errors import Refused
from calc.memory.condition import Condition
from calc.memory.optimizer_conditions import distributed
from calc.reading.files import parse_toml, read_text
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import NOT_DELAYED, Run
from calc.spec.run.narrow_weights import FP8_RECIPES
from calc.spec.stack import load_stack, stack_names

SCALINGS = Path(__file__).parents[1] / "data" / "fp8_recipes.toml"
WITH = "with --fp8-param-gather"


def check_scaling(fp8_recipe: str | None, recompute: Collection[str], field: str = "fp8_recipe") -> None:
    """Errors: Refused for delayed scaling beside modules made anew that it does not go with (transformer_config.py,
    `__post_init__`). field: what says which scaling."""
    if fp8_recipe == "delayed" and NOT_DELAYED & set(recompute):
        expected = f"tensorwise, or another but delayed, beside {' and '.join(sorted(NOT_DELAYED))} made anew"
        raise Refused(field, expected, fp8_recipe)


def check_products(run: Run) -> None:
    """Errors: Refused for products of few bits that the GPU has not, where one is named, and for scales that
    Transformer Engine does not take there."""
    device = run.device_named
    if device is None:
        return
    how, known = run.precision, device.known_peaks
    if dtype(how.multiplied).bits < 16 and how.multiplied not in known:
        expected = f"one whose products {device.name} has, of {', '.join(known)}"
        raise Refused("recipe", expected, f"{how.name}, of {how.multiplied}")
    scalings = scalings_on(device)
    if run.recipe == "fp8" and run.narrow_weights is not None and run.usual_fp8_recipe not in scalings:
        usual = "" if run.fp8_recipe or run.stack is None else f", the usual one of {run.stack.name}"
        raise Refused("fp8_recipe", f"one of {', '.join(scalings)} on {device.name}", f"{run.usual_fp8_recipe}{usual}")


def scalings_on(device: Device) -> tuple[str, ...]:
    """What may share a scale in fp8 on a device; anything where nothing is written down of its architecture."""
    for known in _tables().values():
        if device.architecture in known:
            blocks = device.vendor != "NVIDIA" or device.fp8_block is not None
            return tuple(name for name in known[device.architecture] if name != "mxfp8" or blocks)
    return tuple(FP8_RECIPES)


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    return parse_toml(read_text(SCALINGS), SCALINGS.name)


def of_fp8_weights(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Every condition on it. Errors: Refused for what is not described."""
    if spec.adapter is not None:
        raise Refused(
            "fp8_param_gather", "none beside an adapter: --frozen-dtype says what is frozen in which format", True
        )
    if run.stack is not None and not run.stack.fp8_param_gather:
        known = [name for name in stack_names() if load_stack(name).fp8_param_gather]
        raise Refused("stack", f"{WITH} one of {', '.join(known)}, or none", run.stack.name)
    if run.recipe != "fp8":
        return
    if run.offload == "optimizer" and run.usual_fp8_recipe != "delayed":
        # megatron/training/arguments.py
        raise Refused("fp8_recipe", f"delayed {WITH} and --offload optimizer", run.usual_fp8_recipe)
    expected = f"1 or more {WITH}, which Megatron-Core takes of a distributed optimizer alone"
    yield Condition("zero", expected, run.zero, distributed, run.zero, run.sharing)
