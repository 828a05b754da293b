"""Matrices whose products are in fewer bits than weights are kept in: their copies on a rank, and what is gathered.

Transformer Engine makes copies once a step and keeps them for all micro-batches (`quantize_weight` of its
pytorch/module/base.py, whose workspaces Megatron-Core has it cache): one along rows, which forward reads, and one along
columns, which gradients of inputs do. With --fp8-param-gather these are the weights, and there are no others (its
pytorch/tensor/utils.py; megatron/core/fp8_utils.py and distributed/param_and_grad_buffer.py). torchao keeps weights
whole in fp32 and casts each rank's part before it is gathered (torchao/float8/fsdp_utils.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from calc.dtypes import dtype
from calc.errors import Refused
from calc.spec.run.precision import Recipe


class Scaling(NamedTuple):
    """scales: bytes of them for each element of a copy. columns: whether the copy along columns has values of its own;
    else it is the other one transposed, and there only where a GPU's products ask for that."""

    scales: Fraction
    columns: bool


FP8_RECIPES = {
    "delayed": Scaling(Fraction(0), False),
    "tensorwise": Scaling(Fraction(0), False),
    "blockwise": Scaling(Fraction(4, 128 * 128), True),
    "mxfp8": Scaling(Fraction(1, 32), True),
}
"""Megatron-Core's fp8_recipe -> its scales: one a matrix, whose few bytes are left out; fp32 for 128 x 128 elements;
8 bits for 32 elements."""
FP4_COPIES = 2 * (Fraction(1, 2) + Fraction(1, 16))
"""Bytes of both copies in NVFP4, with 8 bits for 16 elements."""


class NarrowWeights(NamedTuple):
    """Bytes of an element of such a matrix.

    kept: on each rank. part: under ZeRO-3 of the part that a rank keeps, and beside: of all of the matrix, its scales.
    gathered: under ZeRO-3 of a layer that is gathered. sent: that ranks gather once a step, after the optimizer;
    sent_each: under ZeRO-3, in every pass.
    """

    kept: Fraction
    part: Fraction
    beside: Fraction
    gathered: Fraction
    sent: Fraction
    sent_each: Fraction


def narrow_weights(how: Recipe, scaling: str, said: bool, gathers: bool, turned: bool) -> NarrowWeights | None:
    """Those of a recipe; None where products are as wide as weights, or make copies of them when they run.

    scaling: of FP8_RECIPES. said: whether somebody asked for it. gathers: whether matrices are gathered in fp8. turned:
    whether products need a transposed copy of them.
    Errors: Refused for what the recipe does not go with.
    """
    if how.name == "fp8-fsdp":
        if said and scaling != "tensorwise":
            raise Refused("fp8_recipe", f"tensorwise beside the recipe {how.name}", scaling)
        wide, one = Fraction(dtype(how.weights).width), Fraction(1 if gathers else dtype(how.compute).width)
        return NarrowWeights(wide, wide, Fraction(0), one, one, one)
    if how.name != "fp8" and (said or gathers):
        field, found = ("fp8_recipe", scaling) if said else ("fp8_param_gather", True)
        raise Refused(field, f"the recipe fp8 or fp8-fsdp beside it, not {how.name}", found)
    if how.inputs is None:
        return None
    wide = Fraction(dtype(how.weights).width)
    if how.name != "fp8":
        return NarrowWeights(wide + FP4_COPIES, wide, Fraction(0), wide, wide, wide)
    scales, columns = FP8_RECIPES[scaling]
    copies = 2 if columns or turned else 1
    both = copies * (1 + scales)
    if not gathers:
        return NarrowWeights(wide + both, wide, Fraction(0), wide, wide, wide)
    # Of MXFP8 neither copy follows from the other: ranks gather bf16 once a step, in the place of gradients, and cast
    # it; under Megatron-FSDP they keep their parts of both copies, and gather the one that a pass reads.
    own_copies = scaling == "mxfp8"
    one = Fraction(1)
    return NarrowWeights(
        kept=both,
        part=Fraction(2 if own_copies else 1),
        beside=copies * scales,
        gathered=one if own_copies else Fraction(copies),
        sent=wide if own_copies else one,
        sent_each=one,
    )
