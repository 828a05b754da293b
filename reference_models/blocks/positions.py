"""Positions: sinusoidal, rotary with its scalings, and ALiBi."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from calc.spec import Plane, Rope, RopeScaling
from calc.spec.positions import Sinusoid
from reference_models.step import Step

BY_TOKEN = ("theta", "fraction", "interleaved", "proportional", "scaling", "backwards")
"""Fields of Rope that are computed where vectors turn by the place of their token alone."""


def sinusoidal(positions: Tensor, width: int, order: Sinusoid = "alternating") -> Tensor:
    """[..., seq] -> [..., seq, width]: sines and cosines of angles, in the order and with the angles of `Sinusoid`."""
    if order == "halves":
        half = width // 2
        exponent = torch.arange(half, device=positions.device) / max(half - 1, 1)
        angles = positions[..., None].float() * 10_000.0**-exponent
        return F.pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, width % 2))
    exponent = torch.arange(0, width, 2, device=positions.device) / width
    angles = positions[..., None].float() * 10_000.0**-exponent
    if order == "apart":
        return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :width]
    both = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
    return both[..., :width]


def rotation(rope: Rope, d_head: int, positions: Tensor, tuned: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every pair's angle, [batch or 1, 1, seq, pairs] each, for heads of width d_head.

    tuned: [pairs], of what each pair's frequency is multiplied with the logarithm (`Rope.tuned`).

    Two scalings (dynamic, longrope) turn by the length of the longest sequence of the batch so far, this pass included.
    With a cache, keys stay as they were turned: a sequence that is decoded past the original length then holds keys
    turned by two rules (or, with dynamic, one for each length), and its logits are not those of one parallel pass.
    transformers 5.23 computes the same (modeling_rope_utils.py, dynamic_rope_update); only its `generate` drops a
    Phi-3's cache where the rule changes and reads the whole sequence again. Its dynamic scaling also remembers: it
    keeps the angles of the longest sequence seen until one is shorter than the original length. Here nothing is
    remembered.
    """
    frequencies, factor = rope_frequencies(rope, d_head, positions.device, positions.max() + 1)
    frequencies = frequencies if tuned is None else frequencies * tuned.float().exp()
    angles = positions[:, None, :, None].float() * frequencies
    return angles.cos() * factor, angles.sin() * (-factor if rope.backwards else factor)


def turned_in_plane(x: Tensor, rope: Rope, plane: Plane, step: Step) -> Tensor:
    """x [batch, heads, n, d_head] turned by the rows and columns of its patches, `step.places` [2, n].

    A place below 0 is that of a learned vector, which does not turn.
    Errors: ValueError where no front has told the places.
    """
    places, d_head = step.places, x.shape[-1]
    if places is None:
        raise ValueError("places: expected the row and column of each patch, found none")
    cos, sin = _once(step, (rope, plane, d_head), places, lambda: _plane_angles(rope, plane, d_head, places, step.grid))
    if not plane.apart:
        return turn(x, cos, sin, interleaved=rope.interleaved)
    return turn(x.unflatten(-1, (2, -1)), cos, sin, interleaved=rope.interleaved).flatten(-2)


def _plane_angles(
    rope: Rope, plane: Plane, d_head: int, places: Tensor, grid: tuple[int, int] | None
) -> tuple[Tensor, Tensor]:
    """Cosine and sine for `turn` of every patch, [1, 1, n, d_head]; `apart` in halves, [1, 1, n, 2, d_head / 2].

    grid: rows and columns of the picture that the places stand in.
    """
    share = torch.arange(0, d_head // 2, 2, device=places.device, dtype=torch.float32) / (d_head // 2)
    shares = torch.stack([share, share + 2 / d_head * plane.staggered])[:, None]
    axes = places if plane.first == "row" else places.flip(0)
    moved = _spread(axes, plane, grid) if plane.spread else axes + plane.start
    turns = moved.masked_fill(axes < 0, 0).float()
    angles = turns[..., None] * rope.theta**-shares  # [2, n, d_head / 4]
    angles = (angles.permute(1, 2, 0) if plane.by_turns else angles.permute(1, 0, 2)).flatten(1)[None, None]
    both = (angles.cos(), angles.sin())
    if plane.apart:
        both = (each.unflatten(-1, (2, -1)) for each in both)
    cos, sin = (laid(each, rope.interleaved) for each in both)
    return cos, sin


def _spread(axes: Tensor, plane: Plane, grid: tuple[int, int] | None) -> Tensor:
    """Radians of the middle of the patches numbered `axes` [2, n] in a picture of `grid` rows and columns."""
    if grid is None:
        raise ValueError("grid: expected the rows and columns of the picture, found none")
    across = torch.tensor(grid if plane.first == "row" else grid[::-1], device=axes.device, dtype=torch.float32)[
        :, None
    ]
    return 2 * math.pi * ((2 * axes + 1) / across - 1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Turn the first 2 * pairs values of each head; x [batch, heads, seq, d_head] (Su et al. 2021, equation 34)."""
    return turn(x, *(laid(each, interleaved) for each in (cos, sin)), interleaved=interleaved)


def angles(rope: Rope, d_head: int, step: Step) -> tuple[Tensor, Tensor]:
    """Cosine and sine for `turn`, made once in a pass, in the number format of the residual stream."""
    return _once(step, (rope, d_head), step.positions, lambda: _laid_angles(rope, d_head, step))


def _once(
    step: Step, what: tuple[Any, ...], places: Tensor, make: Callable[[], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """What `make` gives for `places`, made by the first layer that asks and then found in `step.made`."""
    if torch.compiler.is_compiling():
        # What is the same in all layers is found by the compiler, which cannot read the keys of `made`.
        return make()
    key = (*what, id(places))
    if key not in step.made:
        # The places are kept too, so that no others come to have their number.
        step.made[key] = *make(), places
    return step.made[key][:2]


def _laid_angles(rope: Rope, d_head: int, step: Step) -> tuple[Tensor, Tensor]:
    dtype = torch.float32 if step.stream is None else step.stream.dtype
    cos, sin = rotation(rope, d_head, step.positions, step.tuned)
    return laid(cos, rope.interleaved).to(dtype), laid(sin, rope.interleaved).to(dtype)


def laid(x: Tensor, interleaved: bool) -> Tensor:
    """[..., pairs] -> [..., 2 * pairs]: the number of each pair at both of its places."""
    return x.repeat_interleave(2, dim=-1) if interleaved else torch.cat([x, x], dim=-1)


def turn(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool, joined: bool = False) -> Tensor:
    """As `rotate`, of a cosine and a sine for every place, [batch or 1, 1, seq, 2 * pairs].

    joined: put together with what does not turn, even where that is nothing.

    x * cos + turned(x) * sin, as transformers writes it, of which going back reads nothing but cosines and sines.
    """
    width = cos.shape[-1]
    turning = x[..., :width]
    if interleaved:
        other = torch.stack([-turning[..., 1::2], turning[..., 0::2]], dim=-1).flatten(-2)
    else:
        first, second = turning.chunk(2, dim=-1)
        other = torch.cat([-second, first], dim=-1)
    turned = (turning * cos + other * sin).to(x.dtype)
    return turned if width == x.shape[-1] and not joined else torch.cat([turned, x[..., width:]], dim=-1)


def rope_frequencies(
    rope: Rope, d_head: int, device: torch.device | None = None, length: Tensor | int = 1
) -> tuple[Tensor, float | Tensor]:
    """(radians a token that each pair turns, what cosines and sines are multiplied with), in a sequence of `length`."""
    # A share may come out a hair below the whole number that it stands for. An odd width turns a pair more.
    width = int(d_head * rope.fraction + 1e-6)
    if rope.proportional:
        turning, width = width // 2, d_head
    places = torch.arange(0, width, 2, device=device, dtype=torch.float32) / width
    plain = rope.theta**-places
    if rope.proportional:
        plain = plain.masked_fill(torch.arange(len(plain), device=device) >= turning, 0.0)
    scaling = rope.scaling
    if scaling is None:
        return plain, 1.0
    match scaling.kind:
        case "linear":
            return plain / scaling.factor, 1.0
        case "ntk":
            return (rope.theta * scaling.factor ** (width / (width - 2))) ** -places, 1.0
        case "dynamic":
            times = torch.as_tensor(length, device=device).clamp(min=scaling.original) / (scaling.original or 1)
            theta = rope.theta * (scaling.factor * times - scaling.factor + 1) ** (width / (width - 2))
            return theta**-places, 1.0
        case "longrope":
            return _longrope(scaling, plain, torch.as_tensor(length, device=device))
        case "yarn":
            return _yarn(rope.theta, scaling, plain, width)
        case "llama3":
            return _llama3(scaling, plain), 1.0
        case _:
            raise NotImplementedError("rotary positions of a scaling that no module computes")


def _longrope(scaling: RopeScaling, plain: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Ding et al. 2024: numbers found by search, for all positions of a sequence those of its length."""
    if len(scaling.short) != len(plain):
        raise ValueError(f"rope.scaling: expected a factor for each of {len(plain)} pairs, found {len(scaling.short)}")
    original = scaling.original or 1
    by_length = [torch.tensor(each, device=plain.device) for each in (scaling.short, scaling.long)]
    usual = math.sqrt(1 + math.log(scaling.factor) / math.log(original)) if scaling.factor > 1 else 1.0
    factor = usual if scaling.attention_factor is None else scaling.attention_factor
    past = factor if scaling.long_attention_factor is None else scaling.long_attention_factor
    is_long = length > original
    return plain / torch.where(is_long, by_length[1], by_length[0]), torch.where(is_long, past, factor)


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
    share = ((turns - scaling.low_freq) / (scaling.high_freq - scaling.low_freq)).clamp(0, 1)
    return plain * share + plain / scaling.factor * (1 - share)


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
