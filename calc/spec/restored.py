"""The front of a decoder that fills in the patches which its encoder was not shown."""

from __future__ import annotations

from typing import Literal

from calc.spec.fields import Dim, Node


class Restored(Node):
    """What an encoder of some of a picture's patches gives, each in the place of its patch, and one learned vector in
    all places that were masked (ViT-MAE: He et al. 2022, arXiv:2111.06377, section 3).

    The encoder has one learned vector ahead of its patches, and dense layers behind it bring its vectors to d_model.
    height, width, patch_height, patch_width: as in `Patches`. n_positions: rows of a table of positions, which is not
    trained.
    """

    kind: Literal["restored"] = "restored"
    height: Dim
    width: Dim
    patch_height: Dim
    patch_width: Dim
    n_positions: Dim
