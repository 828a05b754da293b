"""Mixers side by side in one layer, such as attention and Mamba-2 (Falcon-H1, arXiv:2507.22448)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from calc.spec import Node, Parallel
from reference_models.blocks.linear import scaled
from reference_models.cache import LayerCache, Several
from reference_models.step import Step
from reference_models.support import supported


class SideBySide(nn.Module):
    """All branches read the same vectors; what they give is added up. mixers: the module of each kind of branch."""

    name = "parallel"

    def __init__(self, spec: Parallel, d_model: int, mixers: Mapping[type[Node], Callable[..., nn.Module]]) -> None:
        super().__init__()
        supported(spec, "branches")
        self.spec = spec
        self.names: list[str] = []
        for branch in spec.branches:
            mixer: Any = mixers[type(branch.mixer)](branch.mixer, d_model)
            self.add_module(mixer.name, mixer)
            self.names.append(mixer.name)

    def new_cache(self, length: int | None) -> LayerCache:
        """What each branch keeps, still empty."""
        made: dict[str, Any] = {name: self._branch(name).new_cache(length) for name in self.names}
        return Several(**{name: cache for name, cache in made.items() if cache is not None})

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        parts = cache.parts if isinstance(cache, Several) else {}
        found = []
        for name, branch in zip(self.names, self.spec.branches, strict=True):
            out = self._branch(name)(scaled(x, branch.scale_in), step, parts.get(name))
            found.append(scaled(out, branch.scale_out))
        return torch.stack(found).sum(0)

    def _branch(self, name: str) -> Any:
        return self.get_submodule(name)
