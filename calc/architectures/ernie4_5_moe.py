"""ERNIE 4.5's mixtures of experts (Baidu 2025): ERNIE's attention, the first layer dense, experts in the rest."""

from __future__ import annotations

from calc.architectures.common import activation, stack, without_further_tokens
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, dense_or_moe, rms_norm
from calc.architectures.rope import rope
from calc.spec import LayerGroup, ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Ernie4_5_MoeConfig: 4 key-value heads, two shared experts, tied. What corrects the
    choice of experts is a frozen parameter there."""
    cfg.only("use_bias", False, None, why="dense and shared blocks would have biases and routed experts none")
    cfg.only("moe_norm_min", 1e-12, why="a larger least sum of the chosen scores is not described")
    cfg.only("sliding_window", None, why="no layer of this family has a window")
    without_further_tokens(cfg, "num_nextn_predict_layers")
    norm = rms_norm(cfg, 1e-5)
    turning = rope(cfg, theta=500_000.0, interleaved=True)
    mixer = attention(cfg, kv_absent=4, kv_null=REFUSE, rope=turning)
    kinds = _kinds(cfg, cfg.layers("num_hidden_layers"))
    channels = dense_or_moe(cfg, kinds, _experts(cfg))

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixer, channel=channels[kind], norm=norm)

    return decoder(cfg, stack(kinds, layer), max_seq_len=131072, tied=True, norm=norm)


def _kinds(cfg: Config, n_layers: int) -> list[str]:
    """`moe` for every moe_layer_interval-th layer from moe_layer_start_index to moe_layer_end_index (-1: the last)."""
    first = cfg.count("moe_layer_start_index", absent=1)
    every = cfg.size("moe_layer_interval", absent=1)
    ends_at_last = cfg.raw.get("moe_layer_end_index", -1) == -1
    last = n_layers - 1 if ends_at_last else cfg.count("moe_layer_end_index")
    return ["moe" if (i + 1) % every == 0 and first <= i <= last else "dense" for i in range(n_layers)]


def _experts(cfg: Config) -> Moe:
    d_expert = cfg.size("moe_intermediate_size")
    n_shared = cfg.count("moe_num_shared_experts", absent=2)
    return Moe(
        n_experts=cfg.size("moe_num_experts"),
        top_k=cfg.size("moe_k", absent=6),
        d_expert=d_expert,
        d_shared=n_shared * d_expert or None,
        activation=activation(cfg, "hidden_act", absent="silu"),
        correction=True,
        frozen_correction=True,
    )
