"""Pictures in tiles, as Llama 3.2 Vision's tower reads them, and what stands between its two stages of layers.

Source: Grattafiori et al. 2024 (arXiv:2407.21783, section 7.2); transformers 5.23, models/mllama/modeling_mllama.py.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Tiles(Node):
    """A picture of `n_tiles` tiles of height x width pixels, each cut into patches of patch_height x patch_width.

    Behind a learned vector a tile's patches stand in a row that zeros fill up to a multiple of `whole`; the rows of
    all tiles are one sequence. Each of these is added and gated by one learned number: a vector of each tile to its
    patches, then to these and the vector before them one of each place in a tile, and one of each place in each tile.
    n_shapes: rows of the tables that say so for every way in which tiles make up a picture, which has one of them.
    norm: on the sum, before it is filled up. A mask that hides from one another what fills up is added to all scores.
    """

    symbols: ClassVar[dict[str, str]] = {"n_shapes": "n_tile_shapes"}
    kind: Literal["tiles"] = "tiles"
    n_tiles: Dim
    n_shapes: Dim
    height: Dim
    width: Dim
    patch_height: Dim
    patch_width: Dim
    channels: Dim = 3
    whole: int = Field(default=8, gt=0, le=2**16)
    norm: Norm

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for side in ("height", "width"):
            pixels, patch = getattr(self, side), getattr(self, f"patch_{side}")
            if pixels < patch:
                raise Refused(side, f"at least the patch's {patch} pixels", pixels)
        return self


class Stages(Node):
    """Two stages of a tower's layers: ahead of the last group stand a norm and one more gated vector of each tile, and
    behind it what fills tiles up is cut off. beside: numbers of layers of the first stage, from 0, each value of whose
    results stands side by side, behind all that the last layer gives."""

    norm: Norm
    beside: Annotated[tuple[int, ...], Field(min_length=1, max_length=1000)]
