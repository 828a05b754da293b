"""Command R and R+ (Cohere 2024)."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp
from calc.spec.model import LayerGroup, ModelSpec, Norm, QkNorm

LAYER_NORM = Norm(kind="layernorm")


def spec(cfg: Config) -> ModelSpec:
    """Attention and gated MLP side by side after one LayerNorm without bias; R+ also norms queries and keys."""
    normed = cfg.flag("use_qk_norm", absent=False, null=False)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=attention(cfg, qk_norm=QkNorm(norm=LAYER_NORM, span="heads") if normed else None),
        channel=gated_mlp(cfg),
        norm=LAYER_NORM,
        placement="parallel",
    )
    return decoder(cfg, {"layers": (layer,)}, tied=True, max_seq_len=8192, norm=LAYER_NORM)
