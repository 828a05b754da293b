"""GLM-4.7-Flash (Zhipu 2026): DeepSeek-V3's latent attention and experts, the first layer dense."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import mlp_kinds
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import expert_groups, latent_attention, latent_decoder, routed_experts
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Glm4MoeLiteConfig: queries from a latent of 768 unless `q_lora_rank` is null, one
    shared expert, no groups of experts."""
    all_turns(cfg)
    interleaved = cfg.flag("rope_interleave", absent=True)
    mixer = latent_attention(cfg, q_rank_absent=768, interleaved=interleaved)
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg), scale=1.8)
    kinds = _channel_kinds(cfg, cfg.layers("num_hidden_layers"))
    return latent_decoder(cfg, mixer, kinds, experts, max_seq_len=202752, eps=1e-5)


def all_turns(cfg: Config) -> None:
    """Refuse a part of each head that stands still: the class makes fewer angles then, and multiplies them with all."""
    if (fraction := rope(cfg).fraction) != 1:
        raise Refused(f"{cfg.where}partial_rotary_factor", "1, since the whole width turns", fraction)


def _channel_kinds(cfg: Config, n_layers: int) -> Sequence[str]:
    """What mlp_layer_types says, else the first layer is dense and the others have experts.

    The class reads no first_k_dense_replace, which checkpoints write all the same: it must say the same.
    """
    kinds = mlp_kinds(cfg, ["moe" if i else "dense" for i in range(n_layers)])
    leading = next((i for i, kind in enumerate(kinds) if kind == "moe"), n_layers)
    cfg.only("first_k_dense_replace", None, leading, why="the leading dense layers of mlp_layer_types")
    return kinds
