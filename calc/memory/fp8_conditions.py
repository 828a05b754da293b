"""What scales in fp8, and keeping and gathering matrices so, ask of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from calc.errors import Refused
from calc.memory.condition import Condition
from calc.memory.optimizer_conditions import distributed
from calc.spec import ModelSpec
from calc.spec.run import NOT_DELAYED, Run
from calc.spec.run.narrow_weights import FP8_RECIPES
from calc.spec.stack import load_stack, stack_names

WITH = "with --fp8-param-gather"


def check_scaling(fp8_recipe: str | None, recompute: Collection[str], field: str = "fp8_recipe") -> None:
    """Errors: Refused for delayed scaling beside modules made anew that it does not go with (transformer_config.py,
    `__post_init__`). field: what says which scaling."""
    if fp8_recipe == "delayed" and NOT_DELAYED & set(recompute):
        expected = f"tensorwise, or another but delayed, beside {' and '.join(sorted(NOT_DELAYED))} made anew"
        raise Refused(field, expected, fp8_recipe)


def check_blocks(run: Run) -> None:
    """Errors: Refused for scales of blocks on a GPU of NVIDIA whose products do not apply them."""
    device = run.device_named
    if run.fp8_recipe == "mxfp8" and device is not None and device.vendor == "NVIDIA" and device.fp8_block is None:
        others = ", ".join(name for name in FP8_RECIPES if name != "mxfp8")
        raise Refused("fp8_recipe", f"one of {others} on {device.name}", run.fp8_recipe)


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
