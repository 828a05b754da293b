"""Pictures in stages: attention within windows of patches, and what makes one vector of four between two stages.

Source: Liu et al. 2021 (arXiv:2103.14030, section 3); transformers 5.23, models/swin/modeling_swin.py.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class WindowAttention(Node):
    """Attention within windows of side x side patches, each of which is a sequence of its own (Swin).

    Rows and columns that fill up the last windows are computed like any others. A number of each head for each way in
    which two patches of a window can lie is added to the scores. shifted: windows begin half a side further on and go
    round the picture's edge, and patches that only so came together do not see one another; not where one window holds
    all rows, or all columns.
    d_relative_bias: those numbers come out of two dense layers, this wide between them; queries and keys then meet by
    direction alone, times one learned number of each head, and keys have no bias (Swin v2: Liu et al. 2022,
    arXiv:2111.09883); None: they stand in a table.
    plain: nothing is added to the scores, and queries, keys and values come out of one matrix with biases. The heads of
    each patch meet one another too, as transformers runs it, and nothing reads what comes of that (SAM 2: Ravi et al.
    2024, arXiv:2408.00714). side None beside it: one window holds the whole picture.
    axes: to scores are added the products of each query with a learned vector for how far off a key is along rows, and
    one along columns, of so many patches either way: as many as a side has. Queries, keys and values come out of one
    matrix, and with side None a window holds the whole picture (Segment Anything: Li et al. 2022, arXiv:2112.01526).
    """

    symbols: ClassVar[dict[str, str]] = {"side": "window_side", "axes": "axis_reach"}
    kind: Literal["window_attention"] = "window_attention"
    n_heads: Dim
    side: Dim | None
    shifted: bool = False
    qkv_bias: bool = True
    d_relative_bias: Dim | None = None
    plain: bool = False
    axes: Dim | None = None

    @property
    def causal(self) -> bool:
        """Patches see those to come."""
        return False

    @model_validator(mode="after")
    def _plain(self) -> Self:
        if self.axes is not None and (self.plain or self.shifted or self.d_relative_bias is not None):
            raise Refused("axes", "null where windows are plain, shifted, or numbers are added to scores", self.axes)
        if self.axes is not None and self.side not in (None, self.axes):
            raise Refused("axes", f"the side {self.side} of a window", self.axes)
        if self.side is None and not self.plain and self.axes is None:
            raise Refused("side", "a size, but of plain windows: tables of numbers are as large as a window", None)
        if self.plain and (self.shifted or self.d_relative_bias is not None or not self.qkv_bias):
            raise Refused("plain", "false where windows are shifted, or numbers are added to scores", True)
        return self


class PooledAttention(Node):
    """The first half of a layer between two stages, which makes one vector of d_merged of stride x stride patches.

    One norm; a matrix, the largest of whose results among those patches is what the stream goes on with; and to it is
    added attention within windows of side x side patches (None: the whole picture), whose queries are the largest of
    those of the patches. stride 1: none is pooled, vectors become wider. Heads meet as in plain WindowAttention (Hiera:
    Ryali et al. 2023, arXiv:2306.00989; transformers 5.23, models/sam2, Sam2MultiScaleBlock).
    """

    symbols: ClassVar[dict[str, str]] = {"side": "window_side"}
    d_merged: Dim
    n_heads: Dim
    side: Dim | None
    stride: int = Field(default=2, gt=0, le=64)
    norm: Norm

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.side is not None and self.side % self.stride:
            raise Refused("side", f"a multiple of stride = {self.stride}", self.side)
        if self.d_merged % self.n_heads:
            raise Refused("n_heads", f"a divisor of the width {self.d_merged}", self.n_heads)
        return self


class Merge(Node):
    """The vectors of 2 x 2 patches side by side, through this norm and a matrix that makes one of d_merged of them.

    norm_of: whether the norm stands ahead of the matrix or behind it (Swin v2).

    An odd row or column is filled up with zeros.
    """

    d_merged: Dim
    norm: Norm
    norm_of: Literal["read", "given"] = "read"
