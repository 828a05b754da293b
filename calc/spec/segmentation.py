"""What makes masks of a picture's maps and of a prompt that says what is to be found in it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from calc.sizes import Size, exact_div
from calc.spec.attention import Attention
from calc.spec.channels import Activation
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class MaskDecoder(Node):
    """Layers in which tokens of a prompt and a picture's vectors read one another, and masks of both (Segment Anything:
    Kirillov et al. 2023, arXiv:2304.02643, appendix A; SAM 2: Ravi et al. 2024, arXiv:2408.00714, appendix D.1).

    One prompt for each picture, of n_points points; with given_mask, also a mask of four times as many places along a
    side as the picture has vectors. n_kinds: kinds of points and of corners of boxes, each a learned vector. d_mask,
    mask_activation, mask_norm: of what reads that mask, in two steps of 2 x 2 places each.
    Two-way layers, n_layers of them: tokens read themselves, then the picture in heads that are narrowing times as
    narrow, then pass dense layers, n_dense of them (d_ff wide between them); at last the picture reads tokens.
    The picture's vectors become four times as many along a side; the dot product of each with what a token's own three
    dense layers give is a mask, of n_masks; iou_depth dense layers (d_iou wide between them) say how good each is.
    maps: those of two stages before that of the picture are added as it becomes larger, and another token says whether
    there is anything to be found at all (SAM 2); without them, what turns places into sinusoids is trained, and how
    good masks are is no share. end_norm: behind the last attention; upscale_norm: between two steps of growing.
    """

    symbols: ClassVar[dict[str, str]] = {"d_ff": "d_two_way"}
    n_points: Dim = 1
    given_mask: bool = False
    n_kinds: int = Field(default=4, gt=0, le=2**16)
    d_mask: int = Field(default=16, gt=0, le=2**16, multiple_of=4)
    mask_activation: Activation = "gelu"
    mask_norm: Norm = Norm(kind="layernorm", bias=True, eps=1e-6)
    n_layers: int = Field(default=2, gt=0, le=64)
    n_heads: int = Field(default=8, gt=0, le=2**16)
    narrowing: int = Field(default=2, gt=0, le=2**16)
    d_ff: Dim = 2048
    n_dense: int = Field(default=2, ge=2, le=64)
    activation: Activation = "relu"
    norm: Norm = Norm(kind="layernorm", bias=True)
    end_norm: Norm = Norm(kind="layernorm", bias=True)
    upscale_norm: Norm = Norm(kind="layernorm", bias=True, eps=1e-6)
    n_masks: int = Field(default=4, gt=1, le=64)
    iou_depth: int = Field(default=3, ge=2, le=64)
    d_iou: int = Field(default=256, gt=0, le=2**20)
    maps: bool = True

    def attentions(self, width: Size) -> tuple[Attention, Attention]:
        """Attention of tokens of that width among themselves, and that across, whose heads are narrower."""
        own = Attention(n_heads=self.n_heads, causal=False, qkv_bias=True, out_bias=True, position="added")
        narrow = exact_div(exact_div(width, self.narrowing), self.n_heads)
        return own, own.model_copy(update={"d_head": narrow})
