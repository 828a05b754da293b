"""Rotary positions as config.json writes them: the keys of transformers 4, and `rope_parameters` of transformers 5."""

from __future__ import annotations

import math
from typing import Any

from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Rope, RopeScaling

KINDS: dict[str, Any] = {
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "longrope": "longrope",
    "su": "longrope",
    "llama3": "llama3",
}
"""The word of `rope_type` -> ours; `su` is what Phi-3's first configs call longrope."""


def rope(
    cfg: Config,
    *,
    theta: float = 10_000.0,
    fraction: float = 1.0,
    layers: str | None = None,
    interleaved: bool = False,
    theta_key: str = "rope_theta",
    scaled: bool = True,
    sections: bool = False,
    default: dict[str, Any] | None = None,
) -> Rope:
    """How rotary positions turn; nothing of it changes a cost.

    theta, fraction: what the family takes where theta_key or partial_rotary_factor is absent.
    layers: the word of transformers' layer_types whose entry is meant, where `rope_parameters` has one for each.
    theta_key, scaled: the older key of these layers' theta, and whether the older `rope_scaling` is theirs too.
    sections: whether `mrope` is a word for angles as usual, of which a picture's time, row and column have a section
        each (Qwen2-VL).
    default: the `rope_parameters` of a family that has some where the config has none.
    """
    theta = cfg.number(theta_key, absent=theta, null=theta)
    fraction = cfg.number("partial_rotary_factor", absent=fraction, null=fraction)
    section = _section(cfg, layers, scaled, default)
    if section is None:
        return Rope(theta=theta, fraction=fraction, interleaved=interleaved)
    return Rope(
        theta=section.number("rope_theta", absent=theta, null=theta),
        fraction=section.number("partial_rotary_factor", absent=fraction, null=fraction),
        interleaved=interleaved,
        proportional=_proportional(section),
        scaling=_scaling(cfg, section, ("default", "proportional", None, *(("mrope",) if sections else ()))),
    )


def rope_section(cfg: Config, default: dict[str, Any] | None = None) -> Config:
    """The keys of the rotary positions of all layers, the config's or else `default`; none where neither has any."""
    return _section(cfg, None, True, default) or Config({}, f"{cfg.where}rope_parameters.")


def _section(cfg: Config, layers: str | None, scaled: bool, default: dict[str, Any] | None) -> Config | None:
    section = cfg.section("rope_parameters", absent=None, null=None)
    if section is None:
        section = cfg.section("rope_scaling", absent=None, null=None) if scaled else None
        return Config(default, f"{cfg.where}rope_parameters.") if section is None and default else section
    if layers is not None:
        return section.section(layers)
    if nested := sorted(key for key, value in section.raw.items() if isinstance(value, dict)):
        raise Refused(f"{section.where}{nested[0]}", "one set of rotary positions for all layers", "a set of its own")
    return section


def _proportional(section: Config) -> bool:
    if section.raw.get("rope_type") != "proportional":
        return False
    section.only("factor", 1.0, 1, why="a factor of such angles is not described")
    return True


def _scaling(cfg: Config, section: Config, unscaled: tuple[str | None, ...]) -> RopeScaling | None:
    """unscaled: the words for angles that nothing stretches."""
    word: Any = section.raw.get("rope_type", section.raw.get("type", "default"))
    if word in unscaled:
        return None
    kind = KINDS.get(word, "other") if isinstance(word, str) else "other"
    if kind == "other":
        return RopeScaling(kind="other", factor=1.0)
    length = cfg.size("max_position_embeddings", absent=None, null=None)
    if kind == "dynamic":
        # Of the two lengths transformers takes the one that other rules stretch to.
        length = cfg.size("max_position_embeddings")
        return RopeScaling(kind=kind, factor=section.number("factor"), original=length)
    if kind == "longrope":
        return _longrope(cfg, section, length)
    factor = section.number("factor")
    return RopeScaling(
        kind=kind,
        factor=factor,
        original=_original(cfg, section, length),
        beta_fast=section.number("beta_fast", absent=32.0, null=32.0),
        beta_slow=section.number("beta_slow", absent=1.0, null=1.0),
        truncate=section.flag("truncate", absent=True, null=True),
        attention_factor=_attention_factor(section, factor),
        low_freq=section.number("low_freq_factor", absent=1.0, null=1.0),
        high_freq=section.number("high_freq_factor", absent=4.0, null=4.0),
    )


def _original(cfg: Config, section: Config, length: int | None) -> int | None:
    """The length that was trained on: beside the section, where Phi-3 keeps it, or in it, or the longest there is."""
    own = cfg.size("original_max_position_embeddings", absent=None, null=None)
    usual = length if own is None else None
    inside = section.size("original_max_position_embeddings", absent=usual, null=usual)
    return inside if own is None else own


def _longrope(cfg: Config, section: Config, length: int | None) -> RopeScaling:
    """Numbers for each pair, for sequences up to the original length and past it. Phi-3.5-MoE's two `mscale` stand for
    the attention factor."""
    original = _original(cfg, section, length)
    if original is None:
        raise Refused(f"{section.where}original_max_position_embeddings", "the length that was trained on", "nothing")
    factor = section.number("factor", absent=None, null=None)
    if factor is None:
        factor = cfg.size("max_position_embeddings") / original
    short_scale = section.number("short_mscale", absent=None, null=None)
    return RopeScaling(
        kind="longrope",
        factor=factor,
        original=original,
        short=section.factors("short_factor"),
        long=section.factors("long_factor"),
        attention_factor=section.number("attention_factor", absent=short_scale, null=short_scale),
        long_attention_factor=section.number("long_mscale", absent=None, null=None),
    )


def _attention_factor(section: Config, factor: float) -> float | None:
    """YaRN's factor where the config gives it, as such or as DeepSeek's two `mscale`; None where the paper's holds."""
    own = section.number("attention_factor", absent=None, null=None)
    above, below = (section.number(name, absent=None, null=None) for name in ("mscale", "mscale_all_dim"))
    if own is not None or not above or not below:
        return own
    return (0.1 * above * math.log(factor) + 1) / (0.1 * below * math.log(factor) + 1) if factor > 1 else 1.0
