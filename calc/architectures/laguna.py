"""Laguna (Poolside 2026): norms on queries and keys, a gate a head by softplus, experts behind a dense first layer, and
layers that slide with heads and angles of their own."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import activation, layer_kinds, mlp_kinds, stack, window_of
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, dense_or_moe, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import LayerGroup, ModelSpec, Moe, QkNorm, Rope

THETA = {"full": 500_000.0, "sliding": 10_000.0}
FRACTION = {"full": 0.5, "sliding": 1.0}
"""What the class takes where `rope_parameters` is absent."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' LagunaConfig: 8 key-value heads, heads 128 wide, no layer that slides. What corrects
    the choice of experts is a frozen parameter there."""
    cfg.only("gating", True, "per-head", why="a gate for each value is not described")
    cfg.only("moe_apply_router_weight_on_input", False, why="the class refuses it")
    cfg.only("moe_router_logit_softcapping", 0.0, 0, why="capped scores of experts are not described")
    n_layers = cfg.layers("num_hidden_layers")
    norm, bias = rms_norm(cfg), cfg.flag("attention_bias", absent=False)
    window = cfg.size("sliding_window", absent=512)
    attends = layer_kinds(cfg, ["full"] * n_layers)
    kinds = mlp_kinds(cfg, ["moe" if i else "dense" for i in range(n_layers)])
    channels = dense_or_moe(cfg, kinds, _experts(cfg))
    heads = _heads(cfg, n_layers)

    def layer(name: str) -> LayerGroup:
        attend, kind, n_heads = name.split("_")
        turning = rope(cfg, layers=f"{attend}_attention")
        if cfg.raw.get("rope_parameters") is None:
            turning = Rope(theta=THETA[attend], fraction=FRACTION[attend])
        mixer = attention(
            cfg,
            kv_absent=8,
            kv_null=REFUSE,
            d_head_absent=128,
            qkv_bias=bias,
            out_bias=bias,
            qk_norm=QkNorm(norm=norm),
            rope=turning,
            head_gate="softplus",
        )
        n_kv_heads = mixer.kv_heads
        if int(n_heads) % n_kv_heads:
            raise Refused(f"{cfg.where}num_attention_heads_per_layer", f"multiples of {n_kv_heads}", n_heads)
        own = {"n_heads": int(n_heads), "n_kv_heads": n_kv_heads, "window": window_of(attend, window)}
        return LayerGroup(count=1, mixer=mixer.model_copy(update=own), channel=channels[kind], norm=norm)

    names = [f"{a}_{k}_{n}" for a, k, n in zip(attends, kinds, heads, strict=True)]
    return decoder(cfg, stack(names, layer), max_seq_len=131072, norm=norm)


def _heads(cfg: Config, n_layers: int) -> Sequence[int]:
    """Query heads of each layer."""
    usual = [cfg.size("num_attention_heads")] * n_layers
    given = cfg.numbers("num_attention_heads_per_layer", length=n_layers, absent=None, null=None) or usual
    if 0 in given:
        raise Refused(f"{cfg.where}num_attention_heads_per_layer", "numbers above 0", 0)
    return given


def _experts(cfg: Config) -> Moe:
    return Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("moe_intermediate_size"),
        d_shared=cfg.size("shared_expert_intermediate_size"),
        activation=activation(cfg, "hidden_act", absent="silu"),
        scoring="sigmoid",
        correction=True,
        frozen_correction=True,
        scale=cfg.number("moe_routed_scaling_factor", absent=1.0),
    )
