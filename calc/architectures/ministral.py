"""Ministral 8B (Mistral AI 2024): Mistral's block, with windows in the layers that `layer_types` names."""

from __future__ import annotations

from calc.architectures.common import layer_kinds, sliding_stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MinistralConfig: 8 key-value heads, a window of 4096, and all layers sliding. Its
    modeling code runs neither without a window nor without a head_dim."""
    n_layers = cfg.layers("num_hidden_layers")
    window = cfg.size("sliding_window", absent=4096)
    mixer = attention(cfg, kv_absent=8, kv_null=REFUSE, d_head_absent=REFUSE)
    kinds = layer_kinds(cfg, ["sliding"] * n_layers)
    layers = sliding_stack(kinds, mixer, window, channel=gated_mlp(cfg), norm=rms_norm(cfg))
    return decoder(cfg, layers, max_seq_len=131072)
