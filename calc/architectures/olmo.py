"""OLMo 1 (arXiv:2402.00838)."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp
from calc.spec.model import LayerGroup, ModelSpec, Norm

BARE_NORM = Norm(kind="layernorm", affine=False)


def spec(cfg: Config) -> ModelSpec:
    """Llama's block with LayerNorms that have no weights. `clip_qkv` clamps, and costs nothing that is counted."""
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"), mixer=attention(cfg), channel=gated_mlp(cfg), norm=BARE_NORM
    )
    return decoder(cfg, {"layers": (layer,)}, tied=False, norm=BARE_NORM)
