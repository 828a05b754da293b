"""The front of time series: patches of a channel's values."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.sizes import Size, floor_div
from calc.spec.fields import Dim, Node


class Series(Node):
    """Patches of the last values of one channel (PatchTST: Nie et al. 2023, arXiv:2211.14730, section 3.1).

    Every channel is a sequence of its own. length: values of a channel; patch: those of one patch; stride: values from
    a patch to the next; the first ones that no patch reaches are left out. special: a learned vector stands ahead of
    the patches. trained_positions: whether the table of positions, one for each vector, is learned.
    """

    symbols: ClassVar[dict[str, str]] = {"length": "series_length", "patch": "d_patch", "stride": "patch_stride"}
    kind: Literal["series"] = "series"
    length: Dim
    patch: Dim
    stride: Dim
    special: bool = False
    trained_positions: bool = True

    @property
    def patches(self) -> Size:
        """Patches of one channel."""
        return floor_div(self.length - self.patch, self.stride) + 1

    @model_validator(mode="after")
    def _reaches(self) -> Self:
        if self.length < self.patch:
            raise Refused("length", f"at least the patch's {self.patch} values", self.length)
        return self
