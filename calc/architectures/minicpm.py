"""MiniCPM 1B and 2B and their mixture of experts (arXiv:2404.06395); config class in OpenBMB's own repository."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp
from calc.spec.model import LayerGroup, Mlp, ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Llama's shape with scaled residuals (which cost nothing that is counted) and a tied head unless it says not."""
    cfg.only("sparse_config", None, why="its sparse attention is not described")
    layer = LayerGroup(count=cfg.layers("num_hidden_layers"), mixer=attention(cfg, d_head=None), channel=_channel(cfg))
    return decoder(cfg, {"layers": (layer,)}, tied=True)


def _channel(cfg: Config) -> Mlp | Moe:
    """`num_experts` above 0 makes every layer a mixture of experts of `intermediate_size` each."""
    n_experts = cfg.count("num_experts", absent=0)
    if n_experts == 0:
        return gated_mlp(cfg)
    return Moe(
        n_experts=n_experts,
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("intermediate_size"),
        activation=activation(cfg, "hidden_act", absent="silu"),
    )
