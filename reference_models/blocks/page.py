"""Where what stands on a page stands: boxes of tokens, and of the patches of its picture."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from calc.spec import Boxes

SIDE = 1000
"""A page's width and height, in which boxes are told (LayoutLM: Xu et al. 2020, arXiv:1912.13318, section 2.2)."""


def add_box_tables(module: nn.Module, spec: Boxes) -> None:
    """Four tables beside that of tokens."""
    for names, width in ((("across", "down"), spec.d_place), (("tall", "wide"), spec.d_extent)):
        for name in names:
            module.add_module(name, nn.Embedding(spec.n_places, width))


def box_vectors(module: Any, boxes: Tensor) -> Tensor:
    """boxes [batch, seq, 4]: left, upper, right and lower ends -> [batch, seq, d_model]."""
    left, upper, right, lower = boxes.unbind(-1)
    ends = [module.across(left), module.down(upper), module.across(right), module.down(lower)]
    return torch.cat([*ends, module.tall(_extent(lower - upper)), module.wide(_extent(right - left))], dim=-1)


def _extent(difference: Tensor) -> Tensor:
    return difference.clip(0, 1023)


def boxes_of_patches(side: int, device: torch.device) -> Tensor:
    """Of the vector ahead of a picture's patches, almost the whole page, and of side * side patches: [n, 4]."""
    ends = torch.arange(side + 1, device=device) * SIDE // side
    first, last = ends[:-1], ends[1:]
    rows, columns = (each.flatten() for each in torch.meshgrid(*[torch.arange(side, device=device)] * 2, indexing="ij"))
    patches = torch.stack([first[columns], first[rows], last[columns], last[rows]], dim=-1)
    return torch.cat([torch.tensor([[1, 1, SIDE - 1, SIDE - 1]], device=device), patches])
