"""What a front gives to the layers of its stack."""

from __future__ import annotations

from typing import NamedTuple

from calc.sizes import Size
from calc.trace.tensor import Tensor


class FrontOutput(NamedTuple):
    """vectors [batch * length, d_model], `length` of them for each sequence. places [length, d_model]: what attention
    adds to queries and keys in every layer to tell the vectors apart (DETR), or None."""

    vectors: Tensor
    length: Size
    places: Tensor | None = None
