"""gpt-oss (OpenAI 2025, arXiv:2508.10925): attention with sinks, every other layer sliding, experts with biases."""

from __future__ import annotations

from calc.architectures.common import alternating, layer_kinds, stack, window_of
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder
from calc.architectures.mixtral import local_experts
from calc.spec import LayerGroup, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GptOssConfig: heads 64 wide, 8 key-value heads, window 128, biases in attention."""
    n_layers = cfg.layers("num_hidden_layers")
    bias = cfg.flag("attention_bias", absent=True)
    window = cfg.size("sliding_window", absent=128, null=None)
    mixer = attention(cfg, kv_absent=8, d_head_absent=64, d_head_null=None, qkv_bias=bias, out_bias=bias, sinks=True)
    channel = local_experts(cfg).model_copy(update={"bias": True, "router_bias": True})
    kinds = layer_kinds(cfg, alternating(n_layers, 2))
    # The published configs name the same number twice.
    cfg.only("experts_per_token", channel.top_k, why="the same as num_experts_per_tok")

    def layer(kind: str) -> LayerGroup:
        own = mixer.model_copy(update={"window": window_of(kind, window)})
        return LayerGroup(count=n_layers, mixer=own, channel=channel)

    return decoder(cfg, stack(kinds, layer), max_seq_len=131072)
