"""Fronts of a detector: a convolutional network over the picture, and the learned queries that look for objects."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node


class ResNet(Node):
    """A residual network (He et al. 2016, arXiv:1512.03385) and a 1 x 1 convolution from its last stage to d_model.

    height, width: pixels of the picture that is counted where a Load's `image` gives none. stem: channels of the first
    convolution. depths, widths: layers and channels of each stage. bottleneck: three convolutions a layer, the middle
    one a quarter as wide, and not two. Its batch norms are frozen and hold no parameters (DETR: Carion et al. 2020).
    stride_first: a stage is halved by the first convolution of its first layer, and not by the one of 3 x 3.
    halve_first_stage: whether the first stage is halved as well.
    trained_from: the first stage that is trained, from 0 on; -1 for the stem too. What stands before it is frozen.
    axis_positions: rows of a learned table for rows and of one for columns; None: positions are fixed.
    """

    kind: Literal["resnet"] = "resnet"
    height: Dim
    width: Dim
    channels: Dim = 3
    stem: int = Field(default=64, gt=0, le=2**16)
    depths: tuple[int, ...] = (3, 4, 6, 3)
    widths: tuple[int, ...] = (256, 512, 1024, 2048)
    bottleneck: bool = True
    stride_first: bool = False
    halve_first_stage: bool = False
    trained_from: int = Field(default=-1, ge=-1, le=64)
    axis_positions: Dim | None = None

    @model_validator(mode="after")
    def _stages(self) -> Self:
        for name, values in (("depths", self.depths), ("widths", self.widths)):
            if not values or len(values) > 64 or not all(0 < value <= 2**16 for value in values):
                raise Refused(name, "a whole number from 1 to 65536 for each stage", str(values)[:60])
        if len(self.depths) != len(self.widths):
            raise Refused("depths", f"as many as widths, {len(self.widths)}", len(self.depths))
        if sum(self.depths) > 10**4:
            raise Refused("depths", "at most 10000 layers together", sum(self.depths))
        if self.bottleneck and any(width % 4 for width in self.widths):
            raise Refused("widths", "multiples of 4, since the middle convolution has a quarter", str(self.widths)[:60])
        return self


class Queries(Node):
    """Learned vectors that stand for what may be found (DETR: Carion et al. 2020, section 3.2)."""

    kind: Literal["queries"] = "queries"
    n_queries: Dim = 100
