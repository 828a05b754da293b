"""Doge (SmallDoge 2025): Llama's block where keys' values mask them, and the stream is scaled ahead of each sum."""

from __future__ import annotations

from math import isqrt

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.errors import Refused
from calc.spec import LayerGroup, ModelSpec, QkNorm, RetrievedExperts


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' DogeConfig: as many key-value heads as heads, all of at most 2048 keys seen.

    Its experts are vectors, which tokens retrieve by scores that transformers' class mixes among them.
    """
    bias, norm = cfg.flag("attention_bias", absent=False), rms_norm(cfg)
    mixer = attention(
        cfg,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        window=cfg.size("sliding_window", absent=None, null=None),
        dynamic_mask=cfg.size("keep_window_size", absent=2048),
    )
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=mixer,
        channel=_retrieved(cfg) if cfg.flag("is_moe", absent=False) else gated_mlp(cfg, bias=_biased(cfg)),
        norm=norm,
        kept_scale=True,
        residual_dropout=True,
        outer_dropout="none",
    )
    return decoder(cfg, {"layers": (layer,)}, max_seq_len=2048, norm=norm)


def _biased(cfg: Config) -> bool:
    return cfg.flag("mlp_bias", absent=False)


def _retrieved(cfg: Config) -> RetrievedExperts:
    """As many halves of keys as the root of the experts' number, of which those beyond its square have none."""
    n_experts, top_k = cfg.size("num_experts", absent=16384), cfg.size("num_experts_per_tok", absent=64)
    n_keys = isqrt(n_experts)
    if top_k > n_keys**2:
        raise Refused(f"{cfg.where}num_experts_per_tok", f"at most the {n_keys**2} experts that have keys", top_k)
    cfg.notes.append(
        "as its class mixes them, scores by which a token retrieves experts are of others of the batch too"
    )
    plain = gated_mlp(cfg, bias=_biased(cfg))
    assert isinstance(plain.d_ff, int)
    return RetrievedExperts(
        n_experts=n_experts,
        n_keys=n_keys,
        top_k=top_k,
        d_shared=plain.d_ff,
        bias=plain.bias,
        activation=activation(cfg, "hidden_act", absent="silu"),
        renormalize=cfg.flag("norm_topk_prob", absent=False),
    )
