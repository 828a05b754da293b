"""Copies of gradients that an optimizer's step makes: what they hold for a moment, and what they move.

How Megatron-Core makes them says `_copy_model_grads_to_main_grads` (megatron/core/optimizer/distrib_optimizer.py,
core_r0.13.0), and how DeepSpeed 0.19.6 does `step` of deepspeed/runtime/zero/stage_1_and_2.py,
`_prepare_fp32_grad_for_sub_group` of zero/stage3.py, and `step` of fp16/fused_optimizer.py, which updates without ZeRO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calc.dtypes import dtype
from calc.sizes import Size, at_least, ceil_div, either, is_array, is_exactly, largest, maximum, minimum
from calc.spec.run import Run
from calc.spec.run.optimizers import Optimizer

SUB_GROUP = 10**9
"""Parameters of a rank that DeepSpeed's ZeRO-3 steps through at a time, where a file does not say."""
DOUBLE = 8
"""Bytes of a number in fp64, in which DeepSpeed takes the norm of each gradient."""


class Stepped(NamedTuple):
    """Parameters that a rank's optimizer steps with together. own: those that it updates on the GPU, of those that it
    trains before ZeRO divides them; tensors: elements of each of these."""

    own: Size
    trained: Size
    tensors: Sequence[Size]


NOTHING = Stepped(0, 0, ())


def stepping(run: Run, steps: Optimizer, dense: Stepped, experts: Stepped) -> Size:
    """Bytes that a step of the optimizer takes beside what a rank keeps."""
    own = dense.own + experts.own
    kept = own * steps.update
    if run.gradient_copy == "beside":
        return kept + own * _widths(run)[1] * (1 - run.divides(3))
    if run.gradient_copy == "none":
        return kept
    # Experts that are spread over ranks are stepped with by themselves, before or after all else.
    joined = Stepped(own, dense.trained + experts.trained, (*dense.tensors, *experts.tensors))
    apart = largest(_laid_flat(run, steps, part) for part in (dense, experts))
    spread = run.ep > 1 if is_array(run.ep) else not is_exactly(run.ep, 1)
    return either(spread, apart, _laid_flat(run, steps, joined))


def _laid_flat(run: Run, steps: Optimizer, part: Stepped) -> Size:
    """DeepSpeed's: gradients one after the other, then as wide as what they update, and then the narrow ones go, but
    under ZeRO-3. Those that other ranks step with go first. Ahead of it comes the norm of every gradient, in fp64.
    Without ZeRO each gradient is widened by itself, and all are laid flat then."""
    narrow, wide = _widths(run)
    widened = wide * (narrow < wide)
    one, two, three = (at_least(run.zero, stage) for stage in (1, 2, 3))
    piece = part.own - three * (part.own - minimum(part.own, SUB_GROUP))
    laid = one * (narrow + widened) + (1 - one) * (widened + wide)
    after = wide - narrow * (1 - three) + steps.update
    others = (one - two) * (part.trained - part.own) * narrow
    norm = one * DOUBLE * minimum(ceil_div(largest(part.tensors), 1 + three * (run.sharing - 1)), part.own)
    return maximum(maximum(piece * maximum(laid, after) - others, norm), 0)


def moved_by_copies(run: Run) -> Size:
    """Bytes of each updated parameter that such copies read and write, beyond a gradient that the optimizer reads; of
    DeepSpeed's also those of the norm (in fp64 under ZeRO), of clipping, and of copying weights back."""
    narrow, wide = _widths(run)
    if run.gradient_copy == "beside":
        return 2 * wide * (1 - run.divides(3))
    if run.gradient_copy == "flat":
        zero = at_least(run.zero, 1)
        norm = zero * (narrow + 2 * DOUBLE) + (1 - zero) * wide
        copies = 2 * wide * (narrow < wide) + zero * 2 * narrow + (1 - zero) * 2 * wide
        return copies + norm + 2 * wide + wide
    return 0


def _widths(run: Run) -> tuple[int, int]:
    """Bytes of a gradient, and of what the optimizer updates."""
    return dtype(run.precision.gradients).width, dtype(run.precision.updated).width
