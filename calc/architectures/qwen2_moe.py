"""Qwen1.5-MoE and Qwen2-MoE (arXiv:2407.10671): routed experts beside a gated shared one, dense layers where told."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import activation, layer_kinds, stack, window_of
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.architectures.qwen2 import window_in_use
from calc.spec import LayerGroup, Mlp, ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen2MoeConfig. With `use_sliding_window` every other layer below number
    `max_window_layers` slides, the first included: the other way round than in the dense models."""
    n_layers = cfg.layers("num_hidden_layers")
    mixer = attention(cfg, kv_absent=16, kv_null=REFUSE, qkv_bias=cfg.flag("qkv_bias", absent=True))
    window = window_in_use(cfg)
    end = cfg.count("max_window_layers", absent=28 if window else None)
    rule = ["sliding" if window and i % 2 == 0 and i < end else "full" for i in range(n_layers)]
    channels = channel_kinds(cfg, n_layers)
    made = channel_of(cfg, channels, shared=True)

    def layer(kind: str) -> LayerGroup:
        own = mixer.model_copy(update={"window": window_of(kind, window)})
        return LayerGroup(count=n_layers, mixer=own, channel=made[kind.removeprefix("sliding_")], norm=rms_norm(cfg))

    kinds = [f"sliding_{c}" if a == "sliding" else c for a, c in zip(layer_kinds(cfg, rule), channels, strict=True)]
    return decoder(cfg, stack(kinds, layer), max_seq_len=32768)


def channel_kinds(cfg: Config, n_layers: int) -> tuple[str, ...]:
    """`moe` for every `decoder_sparse_step`-th layer that is not among `mlp_only_layers`, else `dense`."""
    step = cfg.size("decoder_sparse_step", absent=1)
    dense = frozenset(cfg.numbers("mlp_only_layers", absent=(), null=()))
    routed = cfg.count("num_experts") > 0
    return tuple("moe" if routed and i not in dense and (i + 1) % step == 0 else "dense" for i in range(n_layers))


def channel_of(cfg: Config, kinds: Sequence[str], *, shared: bool, renormalize: bool = False) -> dict[str, Mlp | Moe]:
    """The blocks of those `kinds` that occur. shared: an expert that all tokens visit, scaled by a learned gate.

    intermediate_size is the width of the dense blocks, and of no others. renormalize: what an absent norm_topk_prob
    means.
    """
    made: dict[str, Mlp | Moe] = {}
    if "dense" in kinds:
        made["dense"] = gated_mlp(cfg)
    else:
        cfg.size("intermediate_size", absent=None)
    if "moe" in kinds:
        made["moe"] = _experts(cfg, shared, renormalize)
    return made


def _experts(cfg: Config, shared: bool, renormalize: bool) -> Moe:
    return Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("moe_intermediate_size"),
        d_shared=cfg.size("shared_expert_intermediate_size") if shared else None,
        shared_gate=shared,
        renormalize=cfg.flag("norm_topk_prob", absent=renormalize),
        activation=activation(cfg, "hidden_act", absent="silu"),
    )
