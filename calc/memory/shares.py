"""What ZeRO leaves on one rank of weights, their gradients and the optimizer's state."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from calc.dtypes import dtype
from calc.memory.narrow_copies import part_of, with_copies
from calc.memory.stepping import NOTHING, Stepped
from calc.sizes import Size, ceil_div, is_exactly
from calc.spec.run import Run
from calc.spec.run.optimizers import Optimizer
from calc.spec.run.precision import Recipe


@dataclass(slots=True)
class Held:
    """Elements of a rank before ZeRO: of weights that are spread over dp * cp ranks, or of experts, over dp * cp / ep.
    frozen: bytes of those that are not trained. tensors: elements of each that is. narrow: trained ones that have
    narrow copies."""

    trained: Size = 0
    narrow: Size = 0
    elements: Size = 0
    frozen: Size = 0
    tensors: list[Size] = field(default_factory=list)


class Share(NamedTuple):
    """What ZeRO leaves on one rank of weights that as many ranks share, in bytes. stepped: what the rank's optimizer
    steps through."""

    weights: Size
    gradients: Size
    state: Size
    host: Size
    pinned: Size
    stepped: Stepped


NO_SHARE = Share(0, 0, 0, 0, 0, NOTHING)


def share_of(run: Run, how: Recipe, steps: Optimizer, held: Held, expert: bool) -> Share:
    """That of `held`. expert: whether it is of experts, which fewer ranks share."""
    if is_exactly(held.elements, 0):
        return NO_SHARE
    ranks = run.sharers(expert)
    weights = part_of(held.trained - held.narrow, run.zero, run.weights_from, ranks) * dtype(how.weights).width
    weights = weights + with_copies(held.narrow, run, ranks)
    weights = weights + part_of(held.frozen, run.zero, run.weights_from, ranks)
    gradients = part_of(held.trained, run.zero, 2, ranks) * dtype(how.gradients).width
    own, wide = part_of(held.trained, run.zero, 1, ranks), dtype(how.updated).width
    master: Size = 0 if how.master is None else wide
    if run.keeps_remainders:  # but under Megatron-FSDP, which keeps the copy itself
        master = master - dtype(how.weights).width * (1 - run.divides(3))
    here = _here(own, run.offloaded)
    pinned = 2 * wide * (own - here) if run.offloaded else 0
    host = pinned + steps.state_bytes(own - here, 8 * wide) if run.offloaded else 0
    state = here * master + steps.state_bytes(here, 8 * wide)
    return Share(weights, gradients, state, host, pinned, Stepped(here, held.trained, tuple(held.tensors)))


def _here(own: Size, offloaded: Fraction) -> Size:
    """Of the parameters that a rank updates, those whose states stay on its GPU, rounded up."""
    stays = 1 - offloaded
    return ceil_div(own * stays.numerator, stays.denominator)
