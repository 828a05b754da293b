"""Granite 3's mixtures of experts with an MLP for all tokens beside them (IBM 2025)."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.granitemoe import granite_with
from calc.architectures.mixtral import local_experts
from calc.spec import ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GraniteMoeSharedConfig: no MLP beside the experts."""
    return granite_with(cfg, shared_experts(cfg))


def shared_experts(cfg: Config) -> Moe:
    """Routed experts, and beside them one of `shared_intermediate_size` where that is not 0."""
    d_shared = cfg.count("shared_intermediate_size", absent=0) or None
    return local_experts(cfg).model_copy(update={"d_shared": d_shared})
