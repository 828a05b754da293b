"""Rotary positions as config.json writes them: the keys of transformers 4, and `rope_parameters` of transformers 5."""

from __future__ import annotations

import math
from typing import Any

from calc.architectures.config import Config
from calc.spec import Rope, RopeScaling

KINDS: dict[str, Any] = {"linear": "linear", "yarn": "yarn", "llama3": "llama3"}


def rope(
    cfg: Config, *, theta: float = 10_000.0, fraction: float = 1.0, layers: str | None = None, interleaved: bool = False
) -> Rope:
    """How rotary positions turn; nothing of it changes a cost.

    theta, fraction: what the family takes where rope_theta or partial_rotary_factor is absent.
    layers: the word of transformers' layer_types whose entry is meant, where `rope_parameters` has one for each.
    """
    theta = cfg.number("rope_theta", absent=theta, null=theta)
    fraction = cfg.number("partial_rotary_factor", absent=fraction, null=fraction)
    section = _section(cfg, layers)
    if section is None:
        return Rope(theta=theta, fraction=fraction, interleaved=interleaved)
    return Rope(
        theta=section.number("rope_theta", absent=theta, null=theta),
        fraction=section.number("partial_rotary_factor", absent=fraction, null=fraction),
        interleaved=interleaved,
        scaling=_scaling(cfg, section),
    )


def _section(cfg: Config, layers: str | None) -> Config | None:
    section = cfg.section("rope_parameters", absent=None, null=None)
    if section is None:
        return cfg.section("rope_scaling", absent=None, null=None)
    nested = layers is not None and isinstance(section.raw.get(layers), dict)
    return section.section(layers) if nested else section


def _scaling(cfg: Config, section: Config) -> RopeScaling | None:
    word: Any = section.raw.get("rope_type", section.raw.get("type", "default"))
    if word in ("default", None):
        return None
    kind = KINDS.get(word, "other") if isinstance(word, str) else "other"
    if kind == "other":
        return RopeScaling(kind="other", factor=1.0)
    factor = section.number("factor")
    length = cfg.size("max_position_embeddings", absent=None, null=None)
    return RopeScaling(
        kind=kind,
        factor=factor,
        original=section.size("original_max_position_embeddings", absent=length, null=length),
        beta_fast=section.number("beta_fast", absent=32.0, null=32.0),
        beta_slow=section.number("beta_slow", absent=1.0, null=1.0),
        truncate=section.flag("truncate", absent=True, null=True),
        attention_factor=_attention_factor(section, factor),
        low_freq=section.number("low_freq_factor", absent=1.0, null=1.0),
        high_freq=section.number("high_freq_factor", absent=4.0, null=4.0),
    )


def _attention_factor(section: Config, factor: float) -> float | None:
    """YaRN's factor where the config gives it, as such or as DeepSeek's two `mscale`; None where the paper's holds."""
    own = section.number("attention_factor", absent=None, null=None)
    above, below = (section.number(name, absent=None, null=None) for name in ("mscale", "mscale_all_dim"))
    if own is not None or not above or not below:
        return own
    return (0.1 * above * math.log(factor) + 1) / (0.1 * below * math.log(factor) + 1) if factor > 1 else 1.0
