"""Kimi Linear (Moonshot 2025, arXiv:2510.26692): three layers of Kimi delta attention for each of latent attention."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import crossed_stack, linear_kinds, mlp_kinds
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import dense_then_moe, expert_groups, latent_attention, routed_experts
from calc.architectures.llama import decoder, dense_or_moe, rms_norm
from calc.errors import Refused
from calc.spec import Kda, LayerGroup, ModelSpec, Norm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' KimiLinearConfig; latent attention without positions, the first layer dense."""
    n_layers = cfg.layers("num_hidden_layers")
    cfg.only("mla_use_nope", True, why="keys and queries of this family do not turn")
    cfg.only("moe_router_activation_func", "sigmoid", why="how router logits become weights")
    cfg.only("tie_word_embeddings", False, why="implementations differ in whether this family can be tied")
    norm = rms_norm(cfg, 1e-5)
    mixers = {
        "linear": _kda(cfg, norm),
        "full": latent_attention(cfg, q_rank_absent=None, interleaved=False, d_value_absent=128, position="none"),
    }
    kinds = mlp_kinds(cfg, dense_then_moe(cfg, n_layers, first=1))
    keys = ("num_experts", "num_shared_experts")
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg), scale=2.446, keys=keys)
    channels = dense_or_moe(cfg, kinds, experts)

    def layer(mixer: str, channel: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixers[mixer], channel=channels[channel], norm=norm)

    layers = crossed_stack(_mixer_kinds(cfg, n_layers), kinds, layer)
    return decoder(cfg, layers, max_seq_len=1048576, norm=norm)


def _kda(cfg: Config, norm: Norm) -> Kda:
    """Sizes stand in `linear_attn_config` where Moonshot publishes them, under names of their own where transformers
    saves them."""
    cfg.only("hidden_act", "silu", "swish", why="what this family's convolutions run through")
    nested = _linear(cfg)

    def size(published: str, saved: str, default: int) -> int:
        found = nested.size(published, absent=None)
        return cfg.size(saved, absent=default) if found is None else found

    return Kda(
        n_heads=size("num_heads", "linear_num_heads", 32),
        d_head=size("head_dim", "linear_head_dim", 128),
        d_conv=size("short_conv_kernel_size", "linear_conv_kernel_dim", 4),
        norm=norm,
    )


def _mixer_kinds(cfg: Config, n_layers: int) -> Sequence[str]:
    """`linear` or `full` for each layer: `layer_types`, else the lists of `linear_attn_config`, which count from 1,
    else every fourth layer behind the first is full.

    Errors: Refused for lists that do not name every layer once.
    """
    if (kinds := linear_kinds(cfg, n_layers)) is not None:
        return kinds
    nested = _linear(cfg)
    full = nested.numbers("full_attn_layers", absent=None, null=None)
    linear = nested.numbers("kda_layers", absent=None, null=None)
    if full is None or linear is None:
        return ["full" if i and i % 4 == 0 else "linear" for i in range(n_layers)]
    if sorted((*full, *linear)) != list(range(1, n_layers + 1)):
        raise Refused(
            f"{nested.where}kda_layers", f"each of the layers 1 to {n_layers} there or in full_attn_layers", linear
        )
    return ["full" if i + 1 in full else "linear" for i in range(n_layers)]


def _linear(cfg: Config) -> Config:
    return cfg.section("linear_attn_config", absent=None, null=None) or Config({}, f"{cfg.where}linear_attn_config.")
