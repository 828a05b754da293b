"""K-EXAONE (LG 2026): norms on queries and keys, three sliding layers to one full layer without positions, and
DeepSeek-V3's experts behind a dense first layer."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import (
    alternating,
    crossed_stack,
    layer_kinds,
    mlp_kinds,
    window_of,
    without_further_tokens,
)
from calc.architectures.config import REFUSE, Config
from calc.architectures.deepseek_v3 import dense_then_moe, expert_groups, routed_experts
from calc.architectures.llama import attention, decoder, dense_or_moe, rms_norm
from calc.spec import LayerGroup, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' ExaoneMoeConfig: 32 key-value heads, window 4096, one shared expert."""
    n_layers = cfg.layers("num_hidden_layers")
    without_further_tokens(cfg, "num_nextn_predict_layers")
    norm = rms_norm(cfg, 1e-5)
    mixer = attention(cfg, kv_absent=32, kv_null=REFUSE, qk_norm=QkNorm(norm=norm))
    window = cfg.size("sliding_window", absent=4096)
    kinds = mlp_kinds(cfg, dense_then_moe(cfg, n_layers, first=1))
    keys = ("num_experts", "num_shared_experts")
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg), scale=2.5, keys=keys)
    channels = dense_or_moe(cfg, kinds, experts)

    def layer(attention_kind: str, kind: str) -> LayerGroup:
        position = "rope" if attention_kind == "sliding" else "none"
        own = mixer.model_copy(update={"window": window_of(attention_kind, window), "position": position})
        return LayerGroup(count=1, mixer=own, channel=channels[kind], norm=norm)

    return decoder(cfg, crossed_stack(_attends(cfg, n_layers), kinds, layer), max_seq_len=2048, norm=norm)


def _attends(cfg: Config, n_layers: int) -> Sequence[str]:
    """What layer_types says; else every sliding_window_pattern-th layer is full, where that is a number."""
    if cfg.raw.get("layer_types") is not None:
        return layer_kinds(cfg, ["full"] * n_layers)
    return layer_kinds(cfg, alternating(n_layers, cfg.size("sliding_window_pattern", absent=4)))
