"""Mistral 4 (Mistral AI 2026): latent attention whose queries grow with their position, experts in every layer."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import (
    dense_then_moe,
    expert_groups,
    latent_attention,
    latent_decoder,
    routed_experts,
)
from calc.architectures.ministral3 import grows
from calc.architectures.rope import rope, rope_section
from calc.errors import Refused
from calc.spec import ModelSpec

DEFAULT: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 128.0,
    "original_max_position_embeddings": 8192,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
"""What Mistral4Config takes for an absent `rope_parameters`."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Mistral4Config: queries from a latent of 1024 unless `q_lora_rank` is null, values
    128 wide, one shared expert, no dense layers. Experts are chosen by a softmax over all of them."""
    turning = rope(cfg, interleaved=cfg.flag("rope_interleave", absent=True, null=False), default=DEFAULT)
    mixer = latent_attention(
        cfg,
        q_rank_absent=1024,
        interleaved=turning.interleaved,
        d_value_absent=128,
        temperature=grows(cfg, turning, DEFAULT, 1_048_576),
        default=DEFAULT,
    )
    assert mixer.d_rope is not None
    share, whole = rope_section(cfg).raw.get("partial_rotary_factor"), mixer.d_nope + mixer.d_rope
    if share is not None and int(whole * turning.fraction) != mixer.d_rope:
        raise Refused("partial_rotary_factor", f"qk_rope_head_dim of the {whole} values of a head", share)
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg), scoring="softmax", correction=False)
    kinds = dense_then_moe(cfg, cfg.layers("num_hidden_layers"), first=0)
    return latent_decoder(cfg, mixer, kinds, experts, max_seq_len=1_048_576)
