"""What speaks or sees beside a model, of which a pass of text runs nothing: weights, by their names."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


class IdleWeights(nn.Module):
    """Each weight where its path says; no gradient comes to any."""

    def __init__(self, named: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        super().__init__()
        for path, shape in named:
            *outer, name = path.split(".")
            at: nn.Module = self
            for each in outer:
                if not hasattr(at, each):
                    at.add_module(each, nn.Module())
                at = at.get_submodule(each)
            at.register_parameter(name, nn.Parameter(torch.empty(shape).normal_(std=0.02), requires_grad=False))
