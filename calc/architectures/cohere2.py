"""Command R7B and Command A (Cohere 2024, arXiv:2504.00698)."""

from __future__ import annotations

from calc.architectures.common import alternating, layer_kinds, stack, window_of
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp
from calc.spec import LayerGroup, ModelSpec, Norm

LAYER_NORM = Norm(kind="layernorm")


def spec(cfg: Config) -> ModelSpec:
    """Command R's parallel block. Three layers of four attend to a window with rotary positions, the fourth to all
    tokens without positions (`layer_types`, or `sliding_window_pattern` in older configs).
    """
    n_layers = cfg.layers("num_hidden_layers")
    cfg.only("use_qk_norm", False, None, why="Command R7B has no query and key norms")
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(cfg, qkv_bias=bias, out_bias=bias)
    window = cfg.size("sliding_window", absent=4096, null=None)
    pattern = cfg.size("sliding_window_pattern", absent=4)
    channel = gated_mlp(cfg)

    def make(kind: str) -> LayerGroup:
        own = {"window": window_of(kind, window), "position": "rope" if kind == "sliding" else "none"}
        return LayerGroup(
            count=n_layers,
            mixer=mixer.model_copy(update=own),
            channel=channel,
            norm=LAYER_NORM,
            placement="parallel",
        )

    kinds = layer_kinds(cfg, alternating(n_layers, pattern))
    return decoder(cfg, stack(kinds, make), max_seq_len=8192, tied=True, norm=LAYER_NORM)
