"""dots.llm1 (Xiaohongshu 2025, arXiv:2506.05767): Qwen3's attention, DeepSeek-V3's experts."""

from __future__ import annotations

from calc.architectures.common import crossed_stack, layer_kinds, window_of
from calc.architectures.config import REFUSE, Config
from calc.architectures.deepseek_v3 import dense_then_moe, expert_groups, routed_experts
from calc.architectures.llama import attention, decoder, dense_or_moe, rms_norm
from calc.spec import LayerGroup, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Dots1Config: 32 key-value heads, no dense layers, weights of the chosen experts as
    they are. Layers from number `max_window_layers` on slide, none of 62 where both keys are absent."""
    n_layers = cfg.layers("num_hidden_layers")
    bias = cfg.flag("attention_bias", absent=False)
    norm = rms_norm(cfg)
    mixer = attention(cfg, kv_absent=32, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm(norm=norm))
    window = cfg.size("sliding_window", absent=4096, null=None)
    start = n_layers if window is None else cfg.count("max_window_layers", absent=62)
    attends = layer_kinds(cfg, ["sliding" if i >= start else "full" for i in range(n_layers)])
    kinds = dense_then_moe(cfg, n_layers, first=0)
    renormalize = cfg.flag("norm_topk_prob", absent=False)
    cfg.count("n_shared_experts")
    experts = routed_experts(cfg, shared=REFUSE, groups=expert_groups(cfg), renormalize=renormalize)
    channels = dense_or_moe(cfg, kinds, experts)

    def layer(attention_kind: str, kind: str) -> LayerGroup:
        own = mixer.model_copy(update={"window": window_of(attention_kind, window)})
        return LayerGroup(count=1, mixer=own, channel=channels[kind], norm=norm)

    return decoder(cfg, crossed_stack(attends, kinds, layer), max_seq_len=2048, norm=norm)
