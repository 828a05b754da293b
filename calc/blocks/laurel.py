"""Learned augmented residuals (Menghani et al. 2024, arXiv:2411.07501, section 2), as in Gemma 3n."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec import Norm
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def laurel(t: Trace, rank: Size, norm: Norm, x: Tensor, read: Tensor) -> Tensor:
    """(x + read + norm(right(left(read)))) / sqrt(2), where the mixer has read `read`: 4 * tokens * d_model * rank
    FLOPs."""
    with t.part("laurel", read, of="other") as out:
        low = t.linear("left_proj", read, rank)
        made = t.norm("norm", norm, t.linear("right_proj", low, x.width))
        out.append(t.add("add", read, made))
    return t.scaled("laurel_scale", t.add("laurel_add", x, out[0]), of="other")
