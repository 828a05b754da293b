"""Ling 3.0 (inclusionAI 2026): Kimi delta attention with matrices of full width and bounded decays, five layers of it
for each of latent attention with a gate a head, and DeepSeek-V3's experts."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import crossed_stack, linear_kinds, mlp_kinds, without_further_tokens
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import dense_then_moe, expert_groups, latent_attention, routed_experts
from calc.architectures.llama import decoder, dense_or_moe, rms_norm
from calc.spec import Kda, LayerGroup, ModelSpec, Norm

THETA = 6_000_000.0


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' BailingHybridConfig: every sixth layer attends, the first two are dense, experts are
    chosen within 4 of 8 groups."""
    n_layers = cfg.layers("num_hidden_layers")
    cfg.only("q_lora_rank", None, why="queries of this family have no latent")
    cfg.only("rope_interleave", True, None, why="pairs that turn are neighbours in this family")
    cfg.only("tie_word_embeddings", False, why="the class of this family ties nothing, whatever the config says")
    without_further_tokens(cfg, "num_nextn_predict_layers")
    norm = rms_norm(cfg, 1e-6)
    latent = latent_attention(
        cfg, q_rank_absent=None, interleaved=True, theta=THETA, d_value_absent=128, head_gate=True
    )
    mixers = {"linear": _kda(cfg, norm), "full": latent}
    kinds = mlp_kinds(cfg, dense_then_moe(cfg, n_layers, first=2))
    keys = ("num_experts", "num_shared_experts")
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg, 8, 4), scale=2.5, keys=keys)
    channels = dense_or_moe(cfg, kinds, experts)

    def layer(mixer: str, channel: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixers[mixer], channel=channels[channel], norm=norm)

    layers = crossed_stack(_mixer_kinds(cfg, n_layers), kinds, layer)
    return decoder(cfg, layers, max_seq_len=262144, norm=norm)


def _kda(cfg: Config, norm: Norm) -> Kda:
    """transformers saves the sizes under names of their own, and then the width of latent keys as head_dim."""
    cfg.only("hidden_act", "silu", "swish", why="what this family's convolutions run through")
    bounded = cfg.flag("kda_safe_gate", absent=True)
    bound = cfg.number("kda_lower_bound", absent=-5.0)
    return Kda(
        n_heads=cfg.size("linear_num_heads", absent=cfg.size("num_attention_heads")),
        d_head=cfg.size("linear_head_dim", absent=cfg.size("head_dim", absent=128)),
        d_conv=cfg.size("linear_conv_kernel_dim", absent=cfg.size("short_conv_kernel_size", absent=4)),
        norm=norm,
        bottleneck=False,
        bound=bound if bounded else None,
    )


def _mixer_kinds(cfg: Config, n_layers: int) -> Sequence[str]:
    """`linear` or `full` for each layer: `layer_types`, else the last of every `layer_group_size` is full."""
    period = cfg.size("layer_group_size", absent=6)
    return linear_kinds(cfg, n_layers) or ["linear" if (i + 1) % period else "full" for i in range(n_layers)]
