"""Granite 3's mixtures of experts with an MLP for all tokens beside them (IBM 2025)."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.granitemoe import granite_with
from calc.architectures.mixtral import local_experts
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GraniteMoeSharedConfig: no MLP beside the experts."""
    d_shared = cfg.count("shared_intermediate_size", absent=0) or None
    return granite_with(cfg, local_experts(cfg).model_copy(update={"d_shared": d_shared}))
