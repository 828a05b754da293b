"""Mamba-2 (arXiv:2405.21060), and the layer as hybrids that name its sizes `mamba_*` describe it."""

from __future__ import annotations

import math
from typing import Any

from calc.architectures.config import Config
from calc.architectures.mamba import layer_norm, only_mixers
from calc.errors import Refused
from calc.spec import Mamba2, ModelSpec, Norm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Mamba2Config: 8 groups and an untied head where the keys are absent."""
    d_model = cfg.size("hidden_size")
    mixer = Mamba2(
        n_heads=cfg.size("num_heads"),
        d_head=cfg.size("head_dim", absent=64),
        d_state=summed(cfg, "state_size", absent=128),
        n_groups=cfg.size("n_groups", absent=8),
        d_conv=cfg.size("conv_kernel", absent=4),
        chunk=summed(cfg, "chunk_size", absent=256),
        bias=cfg.flag("use_bias", absent=False),
        conv_bias=cfg.flag("use_conv_bias", absent=True),
        norm=layer_norm(cfg),
        **step_limits(cfg),
    )
    channels = cfg.size("expand", absent=2) * d_model
    if mixer.n_heads * mixer.d_head != channels:
        expected = f"expand * hidden_size / head_dim = {channels} / {mixer.d_head}"
        raise Refused(f"{cfg.where}num_heads", expected, mixer.n_heads)
    return only_mixers(cfg, mixer, tied=False)


def hybrid_mamba2(cfg: Config, norm: Norm) -> Mamba2:
    """The layer of Bamba and Granite 4. Defaults as in transformers' BambaConfig and GraniteMoeHybridConfig."""
    channels = cfg.size("mamba_expand", absent=2) * cfg.size("hidden_size")
    n_heads = cfg.size("mamba_n_heads", absent=128)
    d_head = cfg.multiple("mamba_expand * hidden_size", channels, "mamba_n_heads", n_heads)
    if not isinstance(cfg.raw.get("mamba_d_head", "auto"), str):
        cfg.only("mamba_d_head", d_head, why="mamba_expand * hidden_size / mamba_n_heads")
    else:
        cfg.choice("mamba_d_head", among={"auto": None}, absent=None)
    return Mamba2(
        n_heads=n_heads,
        d_head=d_head,
        d_state=summed(cfg, "mamba_d_state", absent=256),
        n_groups=cfg.size("mamba_n_groups", absent=1),
        d_conv=cfg.size("mamba_d_conv", absent=4),
        chunk=summed(cfg, "mamba_chunk_size", absent=256),
        bias=cfg.flag("mamba_proj_bias", absent=False),
        conv_bias=cfg.flag("mamba_conv_bias", absent=True),
        norm=norm,
        **step_limits(cfg),
    )


def summed(cfg: Config, *names: str, absent: int) -> int:
    """The width of a state, or the tokens of a chunk, 2 at least: sums over one number are no products in PyTorch, and
    its counter has none."""
    found: int = cfg.size(*names, absent=absent)
    if found == 1:
        raise Refused(f"{cfg.where}{names[0]}", "2 or more", 1)
    return found


def step_limits(cfg: Config) -> dict[str, Any]:
    """The ends that step sizes are cut to, `time_step_limit`; transformers writes infinity as an object of its own."""
    cfg.only("hidden_act", "silu", "swish", why="what this family's convolutions and gates run through")
    limits: Any = cfg.raw.get("time_step_limit")
    if limits is None:
        return {}
    expected = "two numbers from 0 on, the first not above the second"
    if not isinstance(limits, list | tuple) or len(limits) != 2:
        raise Refused(f"{cfg.where}time_step_limit", expected, limits)
    low, high = (math.inf if end == {"__float__": "Infinity"} else end for end in limits)
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high)):
        raise Refused(f"{cfg.where}time_step_limit", expected, limits)
    if not 0 <= low <= high or math.isinf(low) or high == 0:
        raise Refused(f"{cfg.where}time_step_limit", expected, limits)
    return {"dt_min": float(low), "dt_max": None if math.isinf(high) else float(high)}
