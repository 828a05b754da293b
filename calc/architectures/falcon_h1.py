"""Falcon-H1 (TII 2025, arXiv:2507.22448): attention and Mamba-2 side by side in every layer, then a gated MLP."""

from __future__ import annotations

import math
from typing import Any

from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.architectures.mamba2 import step_limits, summed
from calc.errors import Refused
from calc.spec import Branch, LayerGroup, Mamba2, ModelSpec, Norm, Parallel, Residual


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' FalconH1Config. Multipliers of width (muP) cost no product."""
    n_layers = cfg.layers("num_hidden_layers")
    norm = rms_norm(cfg, 1e-5)
    gate_scale, out_scale = _factors(cfg, "mlp_multipliers", 2)
    mixer = Parallel(branches=(_mamba2(cfg, norm), _attention(cfg)))
    channel = gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False)).model_copy(update={"gate_scale": gate_scale})
    layer = LayerGroup(
        count=n_layers,
        mixer=mixer,
        channel=channel,
        norm=norm,
        residual=None if out_scale == 1.0 else Residual(channel_added=out_scale),
    )
    return decoder(
        cfg,
        {"layers": (layer,)},
        max_seq_len=8192,
        norm=norm,
        embed_scale=_factor(cfg, "embedding_multiplier"),
        logit_scale=_factor(cfg, "lm_head_multiplier"),
    )


def _attention(cfg: Config) -> Branch:
    """Keys are multiplied with a number, which is a factor of the scores' scale as well."""
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(cfg, kv_absent=8, qkv_bias=bias, out_bias=bias)
    d_head = mixer.d_head or cfg.size("hidden_size") // mixer.n_heads
    of_keys = _factor(cfg, "key_multiplier")
    scale = None if of_keys == 1.0 else of_keys / math.sqrt(d_head)
    return Branch(
        mixer=mixer.model_copy(update={"scale": scale}),
        scale_in=_factor(cfg, "attention_in_multiplier"),
        scale_out=_factor(cfg, "attention_out_multiplier"),
    )


def _mamba2(cfg: Config, norm: Norm) -> Branch:
    """Channels are mamba_d_ssm, or mamba_expand * hidden_size where that is null."""
    channels = cfg.size("mamba_d_ssm", absent=1024, null=None)
    if channels is None:
        channels = cfg.size("mamba_expand", absent=2, null=2) * cfg.size("hidden_size")
    n_heads = cfg.size("mamba_n_heads", absent=128)
    d_head = cfg.multiple("mamba_d_ssm", channels, "mamba_n_heads", n_heads)
    cfg.only("mamba_d_head", "auto", d_head, why="mamba_d_ssm / mamba_n_heads")
    bias = cfg.flag("mamba_proj_bias", absent=False)
    if cfg.flag("projectors_bias", absent=False) != bias:
        raise Refused(f"{cfg.where}projectors_bias", "as mamba_proj_bias: both ways have a bias, or none", not bias)
    normed = cfg.flag("mamba_rms_norm", absent=False)
    after = cfg.flag("mamba_norm_before_gate", absent=True)
    scales = _factors(cfg, "ssm_multipliers", 5)
    mixer = Mamba2(
        n_heads=n_heads,
        d_head=d_head,
        d_state=summed(cfg, "mamba_d_state", absent=256),
        n_groups=cfg.size("mamba_n_groups", absent=1),
        d_conv=cfg.size("mamba_d_conv", absent=4),
        chunk=summed(cfg, "mamba_chunk_size", absent=256),
        bias=bias,
        conv_bias=cfg.flag("mamba_conv_bias", absent=True),
        norm=norm if normed else None,
        gate="after" if normed and after else "before",
        scales=None if set(scales) == {1.0} else scales,
        **step_limits(cfg),
    )
    return Branch(mixer=mixer, scale_in=_factor(cfg, "ssm_in_multiplier"), scale_out=_factor(cfg, "ssm_out_multiplier"))


def _factor(cfg: Config, name: str) -> float:
    return cfg.number(name, absent=1.0)


def _factors(cfg: Config, name: str, n: int) -> Any:
    """`n` numbers, all 1 where there are none."""
    found = cfg.factors(name, absent=(1.0,) * n, null=(1.0,) * n)
    if len(found) != n:
        raise Refused(f"{cfg.where}{name}", f"{n} numbers", found)
    return found
