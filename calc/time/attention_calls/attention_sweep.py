"""Standard attention and flash over the length of a sequence: FLOPs, bytes, memory, and predicted time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from calc.attention.bounds import over_sequence
from calc.attention.flash import flash
from calc.attention.latent import groupings, sharings
from calc.attention.shape import AttentionShape
from calc.attention.standard import standard
from calc.attention.tiles import Blocks
from calc.spec.hardware import Device
from calc.time.attention_calls.backends import attention_seconds, kernels_of, runs_backends
from calc.time.device.profile import Profile
from calc.time.device.speed import Speed
from calc.time.device.speed_of import speed_of
from calc.time.kernels.timing import Answers, time_of

RAN = {"standard": "reference", "flash": "sdpa_flash"}
"""The backends whose times are those of standard attention and of flash."""


class Point(NamedTuple):
    """One way at one length. flops: as executed. traffic: bytes through main memory. peak: bytes beside inputs and
    output. seconds, low, high: predicted; None on a device that PyTorch has no kernels for."""

    attention: str
    seq: int
    flops: int
    traffic: int
    peak: int
    seconds: float | None
    low: float | None
    high: float | None


def sweep(
    shape: AttentionShape, blocks: Blocks, lengths: Sequence[int], where: Speed | Profile | Device | str
) -> list[Point]:
    """Both at each of `lengths`, with seq = keys and tiles of `blocks`, in the shape's direction.

    Errors: as `attention_seconds`.
    """
    speed, known = speed_of(where), Answers()
    shapes = [over_sequence(shape, length) for length in lengths]
    ways = ("forward", "backward") if shape.direction == "backward" else ("forward",)
    timed = runs_backends(speed)
    if timed:
        every = (kernels_of(name, each, way, speed.kind) for each in shapes for name in RAN.values() for way in ways)
        time_of([kernel for kernels in every for kernel in kernels], speed, "eager", known=known)
    points = []
    for each in shapes:
        for name, cost in (("standard", standard(each)), ("flash", flash(each, blocks))):
            time = attention_seconds(speed, RAN[name], each, ways, known=known) if timed else None
            ends = (None, None, None) if time is None else (time.seconds, time.low, time.high)
            points.append(Point(name, each.seq, cost.flops, cost.traffic, cost.peak, *ends))
    return points


def decoder(grouping: str) -> str:
    """The backend that decodes with keys and values kept as `calc.attention.latent.groupings` names it."""
    return {"MLA, expanded": "mla_naive", "MLA, absorbed": "mla_absorbed"}.get(grouping, RAN["flash"])


class Decoded(NamedTuple):
    """One decode step of one layer. cached: bytes a token. seconds, low, high: as in `Point`."""

    name: str
    cached: int
    flops: int
    traffic: int
    seconds: float | None
    low: float | None
    high: float | None


def decoding(step: AttentionShape, where: Speed | Profile | Device | str) -> list[Decoded]:
    """One new token of each sequence by how heads share keys: all, those of `step`, 8 and one key head, and latents.

    step: one new token, with the keys that are cached. Errors: as `attention_seconds`.
    """
    speed = speed_of(where)
    found = []
    for each in groupings(replace(step, kv_heads=None), sharings(step.heads, step.kv_heads)):
        time = attention_seconds(speed, decoder(each.name), each.shape) if runs_backends(speed) else None
        ends = (None, None, None) if time is None else (time.seconds, time.low, time.high)
        found.append(Decoded(each.name, each.cached, each.cost.flops, each.cost.traffic, *ends))
    return found
