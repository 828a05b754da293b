"""Phi-3 and Phi-4 (arXiv:2404.14219, 2412.08905): Llama's block, q, k and v one matrix, gate and up another."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import ModelSpec, RopeScaling

ORIGINAL = 4096
"""What Phi3Config takes for an absent original_max_position_embeddings, whatever its rope_scaling says."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Phi3Config: as many key-value heads as heads, no window. No layer has biases."""
    cfg.only("attention_bias", False, why="this family's projections have no biases")
    turning = rope(cfg).model_copy(update={"joined": True})
    mixer = attention(cfg, fused=True, rope=turning, window=cfg.size("sliding_window", absent=None, null=None))
    _check(cfg, mixer.rope.scaling)
    return uniform(cfg, mixer, gated_mlp(cfg, fused=True), eps=1e-5, max_seq_len=4096)


def _check(cfg: Config, scaling: RopeScaling | None) -> None:
    """Refuse rotary positions that implementations read in different ways."""
    if scaling is None:
        return
    if scaling.kind != "longrope":
        raise Refused(f"{cfg.where}rope_scaling", "default or longrope, this family's only scaling", scaling.kind)
    if cfg.raw.get("original_max_position_embeddings") is None and scaling.original != ORIGINAL:
        expected = f"a length beside rope_scaling, where {ORIGINAL} is taken otherwise"
        raise Refused(f"{cfg.where}original_max_position_embeddings", expected, "nothing")
