"""OLMo 3 (Ai2 2025)."""

from __future__ import annotations

from calc.architectures.common import alternating, layer_kinds, stack, window_of
from calc.architectures.config import Config
from calc.architectures.llama import decoder, gated_mlp
from calc.architectures.olmo2 import normed_attention
from calc.spec import LayerGroup, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """OLMo 2's layer; three of four attend to a window (`layer_types` says which)."""
    n_layers = cfg.layers("num_hidden_layers")
    mixer, channel = normed_attention(cfg), gated_mlp(cfg)
    window = cfg.size("sliding_window", absent=4096, null=None)

    def make(kind: str) -> LayerGroup:
        own = mixer.model_copy(update={"window": window_of(kind, window)})
        return LayerGroup(count=n_layers, mixer=own, channel=channel, placement="output")

    kinds = layer_kinds(cfg, alternating(n_layers, 4))
    return decoder(cfg, stack(kinds, make), max_seq_len=2048)
