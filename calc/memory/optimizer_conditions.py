"""What Megatron-Core's precision-aware optimizer asks of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calc.errors import Refused
from calc.memory.condition import Condition
from calc.sizes import Size
from calc.spec.run import Run
from calc.spec.stack import load_stack, stack_names

WITH = "with --precision-aware"


def of_precision_aware(run: Run) -> Iterator[Condition]:
    """Every condition on it. Errors: Refused for what it does not go with."""
    if run.stack is None or run.stack.gradient_copy != "beside":
        known = [name for name in stack_names() if load_stack(name).gradient_copy == "beside"]
        raise Refused("stack", f"{WITH} one of {', '.join(known)}", run.stack and run.stack.name)
    if run.usual_optimizer not in ("adamw", "adamw-bf16"):
        raise Refused("optimizer", f"adamw or adamw-bf16 {WITH}", run.usual_optimizer)
    if run.precision.master is None:
        raise Refused("recipe", f"one with a wider copy of the weights {WITH}", run.recipe)
    expected = f"1 or more {WITH}, which Megatron-Core takes of a distributed optimizer alone"
    yield Condition("zero", expected, run.zero, distributed, run.zero, run.sharing)


def of_narrow_moments(run: Run) -> Iterator[Condition]:
    """What moments in bf16 ask of a run under Megatron-Core, whose precision-aware optimizer alone keeps such
    (megatron/core/optimizer/optimizer_config.py, `__post_init__`), and divides them."""
    narrow = run.usual_optimizer == "adamw-bf16" and run.precision.master is not None
    if narrow and run.stack is not None and run.stack.gradient_copy == "beside":
        expected = f"1 or more with moments in bf16 under {run.stack.name}, or --optimizer adamw"
        yield Condition("zero", expected, run.zero, distributed, run.zero, run.sharing)


def aware_anyway(run: Run) -> str:
    """Beside what being asked for a precision-aware optimizer changes nothing; nothing where it does."""
    plain = run.changed(precision_aware=False)
    alike = (run.gradient_copy, run.keeps_remainders) == (plain.gradient_copy, plain.keeps_remainders)
    if not alike and not run.divides(3):
        return ""
    if run.usual_optimizer == "adamw-bf16" or run.offload == "optimizer":
        named = "--optimizer adamw-bf16" if run.usual_optimizer == "adamw-bf16" else "--offload optimizer"
        return f"beside {named}, which asks for it by itself"
    if not run.aware:
        return f"in fp8 with {run.usual_fp8_recipe} scales, beside which Megatron-Core keeps the copy in fp32 itself"
    if run.divides(3):
        return "with --zero 3, under which Megatron-FSDP keeps the copy in fp32 itself"
    return "beside --fp8-param-gather with gradients in fp32"


def distributed(zero: Size, ranks: Size) -> Any:
    """Whether ranks divide the optimizer, or there is but one."""
    return (zero >= 1) | (ranks <= 1)
