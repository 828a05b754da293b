"""PyTorch twins of the blocks that `calc` counts: the same description, really computed."""

from __future__ import annotations

from reference_models.cache import Cache
from reference_models.model import Model, Output, build
from reference_models.step import Step

__all__ = ["Cache", "Model", "Output", "Step", "build"]
