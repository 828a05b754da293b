"""Hunyuan-A13B (Tencent 2025): Hunyuan's attention, experts in every layer beside an MLP for all tokens."""

from __future__ import annotations

from calc.architectures.common import activation, stack
from calc.architectures.config import Config
from calc.architectures.hunyuan_v1_dense import hunyuan_attention
from calc.architectures.llama import decoder, rms_norm
from calc.spec import LayerGroup, ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' HunYuanMoEV1Config: one expert a token. All experts and the MLP beside them are
    intermediate_size wide; the checkpoint's own keys must say the same."""
    cfg.only("sliding_window", None, why="no layer of this family has a window")
    cfg.only("moe_layer_num_skipped", 0, None, why="all layers of this family have experts")
    n_layers = cfg.layers("num_hidden_layers")
    d_ff = cfg.size("intermediate_size")
    cfg.only("moe_intermediate_size", None, d_ff, [d_ff] * n_layers, why="all experts are intermediate_size wide")
    cfg.only("num_shared_expert", None, 1, [1] * n_layers, why="one MLP for all tokens, intermediate_size wide")
    mixer, norm = hunyuan_attention(cfg), rms_norm(cfg, 1e-5)

    def layer(kind: str) -> LayerGroup:
        experts = Moe(
            n_experts=cfg.size("num_experts"),
            top_k=int(kind.removeprefix("top")),
            d_expert=d_ff,
            d_shared=d_ff,
            activation=activation(cfg, "hidden_act", absent="silu"),
        )
        return LayerGroup(count=1, mixer=mixer, channel=experts, norm=norm)

    kinds = [f"top{k}" for k in _chosen(cfg, n_layers)]
    return decoder(cfg, stack(kinds, layer), max_seq_len=2048, norm=norm)


def _chosen(cfg: Config, n_layers: int) -> tuple[int, ...]:
    """How many experts a token visits in each layer: `moe_topk`, one number or one for each layer."""
    if isinstance(cfg.raw.get("moe_topk"), list):
        return cfg.numbers("moe_topk", length=n_layers)
    return (cfg.size("moe_topk", absent=1),) * n_layers
