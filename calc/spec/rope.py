"""Rotary positions: how far each pair of a head's values turns from one token to the next; no cost depends on it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from calc.spec.fields import Node


class RopeScaling(Node):
    """How rotary positions are stretched past the `original` length that a model was trained on.

    linear: position interpolation, all angles divided by factor (Chen et al. 2023, arXiv:2306.15595).
    ntk: a larger theta, theta * factor ** (d / (d - 2)) (bloc97 2023), the same for all lengths.
    yarn: fast pairs keep their angle, slow ones are divided by factor, those between are mixed; cosines and sines are
        multiplied by attention_factor, None means 0.1 ln(factor) + 1 (Peng et al. 2023, arXiv:2309.00071, sections 3.2,
        3.3). beta_fast, beta_slow: turns over the original length where the mix begins and ends; truncate: whether
        these ends are rounded to whole pairs.
    other: a rule that is counted but not computed.
    llama3: as yarn's idea, by wavelength between original / low_freq and original / high_freq (Llama 3.1's own code).
    """

    kind: Literal["linear", "ntk", "yarn", "llama3", "other"]
    factor: float = Field(gt=0)
    original: int | None = Field(default=None, gt=0)
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    low_freq: float = 1.0
    high_freq: float = 4.0


class Rope(Node):
    """Rotary position embedding (Su et al. 2021, arXiv:2104.09864).

    theta: base of the angles. fraction: share of a head's width that turns, from its start (GPT-NeoX: a quarter).
    interleaved: neighbours are pairs (GPT-J); False: value i pairs with the one half the turning width behind it.
    """

    theta: float = Field(default=10_000.0, gt=0)
    fraction: float = Field(default=1.0, gt=0, le=1)
    interleaved: bool = False
    scaling: RopeScaling | None = None
