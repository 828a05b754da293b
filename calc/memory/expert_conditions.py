"""What must divide what for routed experts to be spread over ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calc.errors import Refused
from calc.memory.condition import Condition, divides, must_be_one, size_text
from calc.sizes import Size, is_exactly
from calc.spec import Attention, ModelSpec, Moe
from calc.spec.run import Run


def of_experts(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Every condition on how experts are spread. Errors: Refused where no size could fulfil one."""
    experts = [group.channel.n_experts for group in spec.layers if isinstance(group.channel, Moe)]
    if run.expert_tp is not None:
        yield from _said(spec, run)
    if is_exactly(run.ep, 1):
        return
    if not experts:
        yield must_be_one("ep", "1 for a model without experts", run.ep)
    for n in experts:
        yield Condition("ep", f"a divisor of n_experts = {size_text(n)}", run.ep, divides, run.ep, n)
    name, ranks = "dp * cp", run.dp * run.cp
    if run.expert_tp is not None:
        name, ranks = "dp * cp * tp / expert_tp", ranks * run.folded
    expected = f"a divisor of {name} = {size_text(ranks)}{_otherwise(spec, run)}"
    yield Condition("ep", expected, run.ep, divides, run.ep, ranks)


def _otherwise(spec: ModelSpec, run: Run) -> str:
    """What lets tensor-parallel ranks share out experts."""
    if is_exactly(run.tp, 1) or run.expert_tp is not None:
        return ""
    if run.mode != "training":
        return " (`serve` has servers whose tensor-parallel ranks share out experts)"
    return " (times tp with --expert-tp 1)" if whole_experts(spec) else ""


def whole_experts(spec: ModelSpec) -> bool:
    """Whether a model has routed experts that tensor-parallel ranks need not cut: none of attention among them."""
    heads = any(isinstance(mixer, Attention) and mixer.experts for group in spec.layers for mixer in group.mixers)
    return not heads and spec.has_experts


def _said(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """What must hold where it is said into how many parts experts are cut."""
    if run.mode != "training" or not whole_experts(spec):
        expected = "none but where a model with experts, and none of attention, is trained"
        raise Refused("expert_tp", expected, run.expert_tp)
    if run.sequence_parallel is False:
        # Every rank has all tokens then, and would send each of them.
        raise Refused("expert_tp", "none beside --no-sequence-parallel", run.expert_tp)
    yield Condition("expert_tp", f"1, or tp = {size_text(run.tp)}", run.expert_tp, _one_or_all, run.expert_tp, run.tp)


def _one_or_all(size: Size, whole: Size) -> Any:
    return (size == 1) | (size == whole)
