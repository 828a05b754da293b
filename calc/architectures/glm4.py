"""GLM-4-0414 (Zhipu 2025): GLM-4 with a second norm after each block."""

from __future__ import annotations

from calc.architectures import glm
from calc.architectures.config import Config
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Glm4Config, which are GlmConfig's."""
    return glm.spec(cfg, placement="sandwich")
