"""OLMo 2 (arXiv:2501.00656)."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp
from calc.spec.model import LayerGroup, ModelSpec, QkNorm


def layer(cfg: Config, **own: Any) -> LayerGroup:
    """RMSNorm on each block's output, and on all queries and all keys of a token. own: fields of the attention."""
    return LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=attention(cfg, qk_norm=QkNorm(span="all"), **own),
        channel=gated_mlp(cfg),
        placement="output",
    )


def spec(cfg: Config) -> ModelSpec:
    """Llama's sizes, OLMo 2's norms."""
    return decoder(cfg, {"layers": (layer(cfg),)}, tied=False)
