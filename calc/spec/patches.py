"""The front of pictures: a convolution that turns each patch of pixels into a vector."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class WindowedPositions(Node):
    """Learned vectors of a grid of rows * columns, carried over to all patches (bicubic), to which are added those of
    the side * side places of a window, the same in every window (Hiera: Bolya et al. 2023, arXiv:2311.05613)."""

    symbols: ClassVar[dict[str, str]] = {
        "rows": "position_rows",
        "columns": "position_columns",
        "side": "position_side",
    }
    rows: Dim
    columns: Dim
    side: Dim


class Patches(Node):
    """Patch embedding (ViT: Dosovitskiy et al. 2021, equation 1): rows * columns vectors a picture, and learned ones.

    height, width: pixels of the picture that the model is made for; a Load's `image` takes their place.
    patch_height, patch_width: pixels of one patch. stride_height, stride_width: pixels from a patch to the next, None:
    as far as the patch is wide (AST's patches overlap). channels: of the picture. frames: how many pictures in time one
    patch spans (Qwen-VL: 2; a still picture is laid in all of them). n_special: learned vectors beside the patches
    (class, distillation, registers). n_registers: further ones behind those, which have no positions (DINOv2 with
    registers: Darcet et al. 2023, arXiv:2309.16588). n_positions: rows of a learned position table, None where there is
    none; at another picture size it is interpolated, so its rows are a size of their own.
    position_tables: how many tables of that length there are (one each for row and column: 2).
    trained_positions: whether that table is learned; one that is not holds sinusoids.
    mask_vector: a learned vector takes the place of masked patches in pre-training, and otherwise none (DINOv2).
    masked: the share of the patches that no layer sees, chosen at random once they have their positions (ViT-MAE: He et
        al. 2022, arXiv:2111.06377); None: all are seen, and none are chosen.
    norm: on the sum, before the layers (CLIP), or norm_of `patches`, ahead of what is added (GLM-4.1V). special_last:
        the learned vectors stand behind the patches (Llama 4).
    padding: rows and columns of zeros on each side of the picture. windowed: positions of another kind (SAM 2).
    filled: rows and columns of pixels that fill up the last patches are zeros (Swin), and not left out.
    resize: how the position table is carried over to another size of picture; `bilinear` on straight lines (Step 3.7),
        `bilinear-corners` so that the outermost patches of both grids coincide (Qwen3-VL); `bilinear-smooth` weighs all
        of what a smaller one's patch covers (SigLIP 2). centered: pixels from 0 to 1 are stretched to run
        from -1 to 1 first.
    """

    kind: Literal["patches"] = "patches"
    height: Dim
    width: Dim
    patch_height: Dim
    patch_width: Dim
    stride_height: Dim | None = None
    stride_width: Dim | None = None
    channels: Dim = 3
    frames: int = Field(default=1, gt=0, le=64)
    bias: bool = True
    n_special: int = Field(default=0, ge=0, le=2**16)
    n_registers: int = Field(default=0, ge=0, le=2**16)
    special_last: bool = False
    mask_vector: bool = False
    n_positions: Dim | None = None
    trained_positions: bool = True
    masked: float | None = Field(default=None, ge=0, lt=1)
    position_tables: int = Field(default=1, gt=0, le=2)
    resize: Literal["bicubic", "bilinear", "bilinear-corners", "bilinear-smooth"] = "bicubic"
    centered: bool = False
    padding: int = Field(default=0, ge=0, le=1024)
    windowed: WindowedPositions | None = None
    filled: bool = False
    norm: Norm | None = None
    norm_of: Literal["sum", "patches"] = "sum"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.n_registers and (self.n_positions is None or self.special_last or self.norm is not None):
            raise Refused("n_registers", "0, but between learned vectors and patches with positions", self.n_registers)
        if self.masked is not None and (self.n_positions is None or self.special_last or self.n_registers or self.norm):
            raise Refused("masked", "null, but of patches with positions, behind learned vectors", self.masked)
        if self.masked is not None and self.position_tables > 1:
            raise Refused("position_tables", "1, where patches are masked", self.position_tables)
        if self.norm_of == "patches" and (self.n_special or self.norm is None):
            raise Refused("norm_of", "sum, unless patches alone are normed", self.norm_of)
        if self.filled and (self.stride_height or self.stride_width or self.frames > 1 or self.position_tables > 1):
            raise Refused("filled", "false beside strides, several frames or tables", True)
        beside = self.n_special or self.n_registers or self.masked is not None or self.n_positions is not None
        if self.windowed is not None and (beside or self.norm is not None):
            raise Refused("windowed", "null, but of patches alone without further positions or a norm", "positions")
        if self.padding and (self.filled or self.frames > 1 or self.n_positions is not None):
            raise Refused("padding", "0 beside learned positions, several frames or patches that are filled", True)
        for side in ("height", "width"):
            pixels, patch = getattr(self, side) + 2 * self.padding, getattr(self, f"patch_{side}")
            if pixels < patch:
                raise Refused(side, f"at least the patch's {patch} pixels", pixels)
        return self
