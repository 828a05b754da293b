"""Pictures in stages: attention within windows of patches, and what makes one vector of four between two stages.

Source: Liu et al. 2021 (arXiv:2103.14030, section 3); transformers 5.23, models/swin/modeling_swin.py.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from calc.spec.attention import Norm
from calc.spec.fields import Dim, Node


class WindowAttention(Node):
    """Attention within windows of side x side patches, each of which is a sequence of its own (Swin).

    Rows and columns that fill up the last windows are computed like any others. A number of each head for each way in
    which two patches of a window can lie is added to the scores. shifted: windows begin half a side further on and go
    round the picture's edge, and patches that only so came together do not see one another; not where one window holds
    all rows, or all columns.
    d_relative_bias: those numbers come out of two dense layers, this wide between them; queries and keys then meet by
    direction alone, times one learned number of each head, and keys have no bias (Swin v2: Liu et al. 2022,
    arXiv:2111.09883); None: they stand in a table.
    """

    symbols: ClassVar[dict[str, str]] = {"side": "window_side"}
    kind: Literal["window_attention"] = "window_attention"
    n_heads: Dim
    side: Dim
    shifted: bool = False
    qkv_bias: bool = True
    d_relative_bias: Dim | None = None

    @property
    def causal(self) -> bool:
        """Patches see those to come."""
        return False


class Merge(Node):
    """The vectors of 2 x 2 patches side by side, through this norm and a matrix that makes one of d_merged of them.

    norm_of: whether the norm stands ahead of the matrix or behind it (Swin v2).

    An odd row or column is filled up with zeros.
    """

    d_merged: Dim
    norm: Norm
    norm_of: Literal["read", "given"] = "read"
