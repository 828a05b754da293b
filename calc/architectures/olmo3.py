"""OLMo 3 (Ai2 2025)."""

from __future__ import annotations

from calc.architectures.common import layer_kinds, stack
from calc.architectures.config import Config
from calc.architectures.llama import decoder
from calc.architectures.olmo2 import layer
from calc.spec.model import LayerGroup, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """OLMo 2's layer; three of four attend to a window (`layer_types` says which)."""
    n_layers = cfg.layers("num_hidden_layers")
    kinds = layer_kinds(cfg, ["sliding" if (i + 1) % 4 else "full" for i in range(n_layers)])

    def make(kind: str) -> LayerGroup:
        return layer(cfg, window=cfg.size("sliding_window", absent=4096) if kind == "sliding" else None)

    return decoder(cfg, stack(kinds, make), tied=False)
