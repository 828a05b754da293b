"""Flint (RecursiveSI 2026): norms on queries and keys, attention with sinks that turns only where it slides, experts by
sigmoid scores beside a shared one behind two dense layers."""

from __future__ import annotations

from calc.architectures.common import activation, crossed_stack, layer_kinds, window_of
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.spec import LayerGroup, Mlp, ModelSpec, Moe, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' FlintConfig: 4 key-value heads, heads 128 wide, window 513; the first two layers,
    every fourth and the last one full, the first two dense."""
    n_layers = cfg.layers("num_hidden_layers")
    window = cfg.size("sliding_window", absent=513)
    norm, bias = rms_norm(cfg, wide=True), cfg.flag("attention_bias", absent=False)
    mixer = attention(
        cfg,
        kv_absent=4,
        kv_null=REFUSE,
        d_head_absent=128,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        sinks=True,
    )
    last = n_layers - 1
    full = [i < 2 or i % 4 == 1 or i == last for i in range(n_layers)]
    attends = layer_kinds(cfg, ["full" if each else "sliding" for each in full])
    channels = _channel_kinds(cfg, n_layers)
    made = _channels(cfg, channels)

    def layer(kind: str, channel: str) -> LayerGroup:
        own = {"window": window_of(kind, window), "position": "rope" if kind == "sliding" else "none"}
        return LayerGroup(count=1, mixer=mixer.model_copy(update=own), channel=made[channel], norm=norm)

    return decoder(cfg, crossed_stack(attends, channels, layer), max_seq_len=262144, norm=norm)


def _channel_kinds(cfg: Config, n_layers: int) -> list[str]:
    """`moe` for every `decoder_sparse_step`-th layer that is not among `mlp_only_layers`, else `dense`."""
    step = cfg.size("decoder_sparse_step", absent=1)
    dense = frozenset(cfg.numbers("mlp_only_layers", absent=(0, 1), null=(0, 1)))
    routed = cfg.count("num_experts") > 0
    return ["moe" if routed and i not in dense and (i + 1) % step == 0 else "dense" for i in range(n_layers)]


def _channels(cfg: Config, kinds: list[str]) -> dict[str, Mlp | Moe]:
    """The blocks of those `kinds` that occur; the others' sizes need not be there."""
    made: dict[str, Mlp | Moe] = {}
    if "dense" in kinds:
        made["dense"] = gated_mlp(cfg)
    else:
        cfg.size("intermediate_size", absent=None)
    if "moe" in kinds:
        made["moe"] = Moe(
            n_experts=cfg.size("num_experts"),
            top_k=cfg.size("num_experts_per_tok"),
            d_expert=cfg.size("moe_intermediate_size"),
            d_shared=cfg.size("shared_expert_intermediate_size"),
            activation=activation(cfg, "hidden_act", absent="silu"),
            scoring="sigmoid",
            renormalize=cfg.flag("norm_topk_prob", absent=True),
        )
    return made
