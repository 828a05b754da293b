"""OLMo 3 (Ai2 2025)."""

from __future__ import annotations

from calc.architectures.common import alternating, layer_kinds, sliding_stack
from calc.architectures.config import Config
from calc.architectures.llama import decoder, gated_mlp, rms_norm
from calc.architectures.olmo2 import normed_attention
from calc.architectures.rope import rope
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """OLMo 2's layer; three of four attend to a window (`layer_types` says which), and their positions are never
    stretched."""
    n_layers = cfg.layers("num_hidden_layers")
    norm = rms_norm(cfg, 1e-5, wide=True)
    window = cfg.size("sliding_window", absent=4096, null=None)
    turning = {
        "full": rope(cfg, theta=500_000.0, layers="full_attention"),
        "sliding": rope(cfg, theta=500_000.0, layers="sliding_attention", scaled=False),
    }
    kinds = layer_kinds(cfg, alternating(n_layers, 4))
    layers = sliding_stack(
        kinds,
        normed_attention(cfg, rope=turning["full"]),
        window,
        lambda kind: {"rope": turning[kind]},
        channel=gated_mlp(cfg),
        norm=norm,
        placement="output",
    )
    return decoder(cfg, layers, max_seq_len=2048, norm=norm)
