"""Hunyuan 3 (Tencent 2026): grouped queries with a norm a head, DeepSeek-V3's experts behind a dense first layer."""

from __future__ import annotations

from calc.architectures.common import mlp_kinds, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.deepseek_v3 import routed_experts
from calc.architectures.llama import attention, decoder, dense_or_moe, rms_norm
from calc.spec import LayerGroup, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' HYV3Config: 8 key-value heads, heads 128 wide, one shared expert."""
    cfg.only("mlp_bias", False, why="experts of this family have no bias, whatever its dense layers have")
    cfg.size("num_shared_experts", absent=1)
    cfg.only("first_k_dense_replace", None, why="the class reads mlp_layer_types in its place")
    norm = rms_norm(cfg, 1e-5)
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(
        cfg,
        kv_absent=8,
        kv_null=REFUSE,
        d_head_absent=128,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        theta=11_158_840.0,
    )
    experts = routed_experts(
        cfg,
        shared=1,
        groups=None,
        keys=("num_experts", "num_shared_experts"),
        renormalize=True,
        scale_key="router_scaling_factor",
        scale=2.826,
    )
    n_layers = cfg.layers("num_hidden_layers")
    kinds = mlp_kinds(cfg, ["moe" if i else "dense" for i in range(n_layers)])
    channels = dense_or_moe(cfg, kinds, experts)

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixer, channel=channels[kind], norm=norm)

    return decoder(cfg, stack(kinds, layer), max_seq_len=131072, norm=norm)
