"""Copies of gradients that an optimizer's step makes: what they hold for a moment, and what they move.

How Megatron-Core makes them says `_copy_model_grads_to_main_grads` (megatron/core/optimizer/distrib_optimizer.py,
core_r0.13.0), and how DeepSpeed 0.19.6 does `step` of deepspeed/runtime/zero/stage_1_and_2.py,
`_prepare_fp32_grad_for_sub_group` of zero/stage3.py, and `step` of fp16/fused_optimizer.py, which updates without ZeRO.
"""

from __future__ import annotations

from calc.dtypes import dtype
from calc.sizes import Size, at_least, maximum, minimum
from calc.spec.run import Run
from calc.spec.run.precision import Optimizer

SUB_GROUP = 10**9
"""Parameters of a rank that DeepSpeed's ZeRO-3 steps through at a time, where a file does not say."""


def stepping(run: Run, steps: Optimizer, own: Size, trained: Size) -> Size:
    """Bytes that a step of the optimizer takes beside what a rank keeps. own: parameters that it updates on the GPU, of
    those that it trains before ZeRO divides them."""
    kept = own * steps.update
    if run.gradient_copy == "beside":
        return kept + own * _widths(run)[1] * (1 - run.divides(3))
    if run.gradient_copy == "flat":
        return _laid_flat(run, steps, own, trained)
    return kept


def _laid_flat(run: Run, steps: Optimizer, own: Size, trained: Size) -> Size:
    """DeepSpeed's: gradients one after the other, then as wide as what they update, and then the narrow ones go. Those
    that other ranks step with go first. Without ZeRO each is widened by itself, and all are laid flat then."""
    narrow, wide = _widths(run)
    widened = wide * (narrow < wide)
    zero, divides, pieces = (at_least(run.zero, stage) for stage in (1, 2, 3))
    piece = own - pieces * (own - minimum(own, SUB_GROUP))
    laid = zero * (narrow + widened) + (1 - zero) * (widened + wide)
    others = (zero - divides) * (trained - own) * narrow
    return maximum(piece * maximum(laid, wide - narrow + steps.update) - others, 0)


def moved_by_copies(run: Run) -> Size:
    """Bytes of each updated parameter that such copies read and write, beyond a gradient that the optimizer reads."""
    narrow, wide = _widths(run)
    if run.gradient_copy == "beside":
        return 2 * wide * (1 - run.divides(3))
    if run.gradient_copy == "flat":
        zero = at_least(run.zero, 1)
        return 2 * wide * (narrow < wide) + zero * 2 * narrow + (1 - zero) * 2 * wide
    return 0


def _widths(run: Run) -> tuple[int, int]:
    """Bytes of a gradient, and of what the optimizer updates."""
    return dtype(run.precision.gradients).bits // 8, dtype(run.precision.updated).bits // 8
