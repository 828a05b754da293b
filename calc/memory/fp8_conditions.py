"""What scales in fp8, and keeping and gathering matrices so, ask of a run."""

from __future__ import annotations

from collections.abc import Iterator

from calc.errors import Refused
from calc.memory.condition import Condition
from calc.memory.optimizer_conditions import distributed
from calc.spec import ModelSpec
from calc.spec.run import NOT_DELAYED, Run
from calc.spec.stack import load_stack, stack_names

WITH = "with --fp8-param-gather"


def check_scaling(run: Run) -> None:
    """Errors: Refused for modules made anew beside delayed scaling, which Megatron-Core refuses."""
    apart = sorted(NOT_DELAYED & set(run.recompute))
    if run.fp8_recipe == "delayed" and apart:
        raise Refused("recompute", f"none of {', '.join(sorted(NOT_DELAYED))} with delayed scaling", ", ".join(apart))


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
