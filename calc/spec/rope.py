"""Rotary positions: how far each pair of a head's values turns from one token to the next; no cost depends on it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Node


class RopeScaling(Node):
    """How rotary positions are stretched past the `original` length that a model was trained on.

    linear: position interpolation, all angles divided by factor (Chen et al. 2023, arXiv:2306.15595).
    ntk: a larger theta, theta * factor ** (d / (d - 2)) (bloc97 2023), the same for all lengths.
    dynamic: for a sequence n times the original length, where n > 1, theta * (factor * n - factor + 1) ** (d / (d - 2))
        (emozilla 2023).
    yarn: fast pairs keep their angle, slow ones are divided by factor, those between are mixed; cosines and sines are
        multiplied by attention_factor, None means 0.1 ln(factor) + 1 (Peng et al. 2023, arXiv:2309.00071, sections 3.2,
        3.3). beta_fast, beta_slow: turns over the original length where the mix begins and ends; truncate: whether
        these ends are rounded to whole pairs.
    longrope: each pair is divided by a number of its own, of `short` up to the original length and of `long` past it;
        attention_factor None means sqrt(1 + ln(factor) / ln(original)), and for sequences past the original length
        long_attention_factor replaces it where that is given (Ding et al. 2024, arXiv:2402.13753; Phi-3's own code).
    other: a rule that is counted but not computed.
    llama3: as yarn's idea, by wavelength between original / low_freq and original / high_freq (Llama 3.1's own code).
    """

    kind: Literal["linear", "ntk", "dynamic", "yarn", "longrope", "llama3", "other"]
    factor: float = Field(gt=0)
    original: int | None = Field(default=None, gt=0)
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    low_freq: float = 1.0
    high_freq: float = 4.0
    short: tuple[float, ...] = ()
    long: tuple[float, ...] = ()
    long_attention_factor: float | None = None

    @model_validator(mode="after")
    def _by_length(self) -> Self:
        if self.kind in ("dynamic", "longrope") and (self.original or 1) < 2:
            raise Refused("original", f"a length of several tokens, beside {self.kind}", self.original)
        if self.kind != "longrope":
            return self
        for name, numbers in (("short", self.short), ("long", self.long)):
            if not numbers or len(numbers) != len(self.short) or min(numbers) <= 0:
                raise Refused(name, "a number above 0 for each pair, as many as the other list has", list(numbers))
        return self


class Plane(Node):
    """Rotary positions of patches in a picture: each axis turns half of the pairs, with the angles of half the width.

    first: the axis that turns the first pairs. by_turns: the axes' pairs alternate (Kimi-VL). apart: each axis turns a
    half of the head of its own, whose values pair among themselves (Gemma 4). start: the number of the first row and of
    the first column. staggered: the angles of the second axis lie half way between those of the first, and are not the
    same (Pixtral). spread: a patch turns by where its middle lies in the picture, whose edges are -1 and 1 along each
    axis, and 1 is a whole turn (DINOv3). Learned vectors beside the patches do not turn.
    """

    first: Literal["row", "column"] = "row"
    by_turns: bool = False
    apart: bool = False
    start: int = Field(default=0, ge=0, le=2**16)
    staggered: bool = False
    spread: bool = False


class Rope(Node):
    """Rotary position embedding (Su et al. 2021, arXiv:2104.09864).

    theta: base of the angles. fraction: share of a head's width that turns, from its start (GPT-NeoX: a quarter).
    interleaved: neighbours are pairs (GPT-J); False: value i pairs with the one half the turning width behind it.
    inputs: what queries and keys are projected from is turned, a head's width at a time, and not they themselves
        (wav2vec2-conformer).
    plane: angles follow a patch's row and column in its picture; None: they follow a token's place in its sequence.
    proportional: angles are spaced as if the whole head turned, and value i pairs with the one half a head behind it;
        pairs past `fraction` of them stand still (Gemma 4).
    backwards: pairs turn the other way round (nanochat).
    tuned: each frequency is multiplied with a number of its own, exp(alpha), whose alphas are learned and stand in one
        buffer of the model, no parameter (Mistral Large 4).
    joined: heads are put together of what turns and what does not, even where all of it turns (Phi-3).
    """

    theta: float = Field(default=10_000.0, gt=0)
    fraction: float = Field(default=1.0, gt=0, le=1)
    interleaved: bool = False
    proportional: bool = False
    scaling: RopeScaling | None = None
    inputs: bool = False
    plane: Plane | None = None
    backwards: bool = False
    tuned: bool = False
    joined: bool = False

    @model_validator(mode="after")
    def _forwards_in_a_plane(self) -> Self:
        if self.backwards and self.plane is not None:
            raise Refused("backwards", "false where patches turn by row and column", True)
        return self
