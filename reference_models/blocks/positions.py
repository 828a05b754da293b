"""Positions: sinusoidal, rotary with its scalings, and ALiBi."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from calc.spec import Rope, RopeScaling
from reference_models.blocks.linear import wide


def sinusoidal(positions: Tensor, width: int) -> Tensor:
    """[..., seq] -> [..., seq, width]: sines in even places, cosines in odd ones (Vaswani et al. 2017, section 3.5)."""
    exponent = torch.arange(0, width, 2, device=positions.device) / width
    angles = positions[..., None].float() * 10_000.0**-exponent
    both = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
    return both[..., :width]


def rotation(rope: Rope, d_head: int, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every pair's angle, [batch or 1, 1, seq, pairs] each, for heads of width d_head."""
    frequencies, factor = rope_frequencies(rope, d_head, positions.device)
    angles = positions[:, None, :, None].float() * frequencies
    return angles.cos() * factor, angles.sin() * factor


def rotate(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Turn the first 2 * pairs values of each head; x [batch, heads, seq, d_head] (Su et al. 2021, equation 34)."""
    width = 2 * cos.shape[-1]
    turning, rest = x[..., :width], x[..., width:]
    if interleaved:
        a, b = wide(turning[..., 0::2]), wide(turning[..., 1::2])
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    else:
        a, b = wide(turning).chunk(2, dim=-1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    return torch.cat([turned.to(x.dtype), rest], dim=-1)


def rope_frequencies(rope: Rope, d_head: int, device: torch.device | None = None) -> tuple[Tensor, float]:
    """(radians a token that each pair turns, what cosines and sines are multiplied with)."""
    width = int(d_head * rope.fraction) // 2 * 2
    places = torch.arange(0, width, 2, device=device, dtype=torch.float32) / width
    plain = rope.theta**-places
    scaling = rope.scaling
    if scaling is None:
        return plain, 1.0
    match scaling.kind:
        case "linear":
            return plain / scaling.factor, 1.0
        case "ntk":
            return (rope.theta * scaling.factor ** (width / (width - 2))) ** -places, 1.0
        case "yarn":
            return _yarn(rope.theta, scaling, plain, width)
        case "llama3":
            return _llama3(scaling, plain), 1.0
        case _:
            raise NotImplementedError("rotary positions of a scaling that no module computes")


def _yarn(theta: float, scaling: RopeScaling, plain: Tensor, width: int) -> tuple[Tensor, float]:
    """Peng et al. 2023, section 3.2: the ramp between pairs that turn beta_fast and beta_slow times."""
    original = scaling.original or 4096

    def pair(turns: float) -> float:
        return width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    places = torch.arange(width // 2, device=plain.device, dtype=torch.float32)
    slow = ((places - low) / max(high - low, 1e-3)).clamp(0, 1)
    factor = scaling.attention_factor
    if factor is None:
        factor = 0.1 * math.log(scaling.factor) + 1 if scaling.factor > 1 else 1.0
    return plain * (1 - slow) + plain / scaling.factor * slow, factor


def _llama3(scaling: RopeScaling, plain: Tensor) -> Tensor:
    """Long wavelengths are divided by factor, short ones kept, those between mixed in proportion."""
    turns = (scaling.original or 8192) * plain / (2 * math.pi)
    kept = ((turns - scaling.low_freq) / (scaling.high_freq - scaling.low_freq)).clamp(0, 1)
    return plain * kept + plain / scaling.factor * (1 - kept)


def alibi_slopes(n_heads: int, device: torch.device | None = None) -> Tensor:
    """A slope for each head: a geometric series, filled up from the next one where n_heads is no power of two.

    Source: Press et al. 2022 (arXiv:2108.12409), section 3, and the authors' code for other numbers of heads.
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    slopes += [2 ** (-4 * (2 * i + 1) / power) for i in range(n_heads - power)]
    return torch.tensor(slopes, device=device)


def alibi(n_heads: int, queries: Tensor, keys: Tensor) -> Tensor:
    """[1, n_heads, seq, keys]: minus each head's slope times the distance."""
    distance = (queries[:, None] - keys[None, :]).abs().float()
    return -(alibi_slopes(n_heads, keys.device)[:, None, None] * distance)[None]
