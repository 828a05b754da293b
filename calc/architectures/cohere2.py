"""Command R7B and Command A (Cohere 2024, arXiv:2504.00698)."""

from __future__ import annotations

from calc.architectures.common import layer_kinds, stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp
from calc.spec.model import LayerGroup, ModelSpec, Norm

LAYER_NORM = Norm(kind="layernorm")


def spec(cfg: Config) -> ModelSpec:
    """Command R's parallel block. Three layers of four attend to a window with rotary positions, the fourth to all
    tokens without positions (`layer_types`, or `sliding_window_pattern` in older configs).
    """
    n_layers = cfg.layers("num_hidden_layers")
    cfg.only("use_qk_norm", False, None, why="transformers' Command R7B has no query and key norms")
    pattern = cfg.size("sliding_window_pattern", absent=4)
    kinds = layer_kinds(cfg, ["sliding" if (i + 1) % pattern else "full" for i in range(n_layers)])

    def make(kind: str) -> LayerGroup:
        own = {"window": cfg.size("sliding_window", absent=4096)} if kind == "sliding" else {"position": "none"}
        return LayerGroup(
            count=n_layers,
            mixer=attention(cfg, **own),
            channel=gated_mlp(cfg),
            norm=LAYER_NORM,
            placement="parallel",
        )

    return decoder(cfg, stack(kinds, make), tied=True, max_seq_len=8192, norm=LAYER_NORM)
