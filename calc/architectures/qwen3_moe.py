"""Qwen3's mixtures of experts (arXiv:2505.09388): Qwen3's attention, routed experts, dense layers where told."""

from __future__ import annotations

from calc.architectures.common import one_window, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.qwen2 import window_in_use
from calc.architectures.qwen2_moe import channel_kinds, channel_of
from calc.spec import LayerGroup, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3MoeConfig: 4 key-value heads where the key is absent. With `use_sliding_window`
    all layers slide."""
    n_layers = cfg.layers("num_hidden_layers")
    bias = cfg.flag("attention_bias", absent=False)
    window = window_in_use(cfg)
    one_window(cfg, n_layers, window)
    norm = rms_norm(cfg)
    qk_norm = QkNorm(norm=norm)
    mixer = attention(cfg, kv_absent=4, kv_null=REFUSE, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm, window=window)

    kinds = channel_kinds(cfg, n_layers)
    made = channel_of(cfg, kinds, shared=False)

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=n_layers, mixer=mixer, channel=made[kind], norm=norm)

    return decoder(cfg, stack(kinds, layer), max_seq_len=32768)
