"""Models of time made of a datasheet alone, and of what devices like it reach (calc/data/priors.toml)."""

from __future__ import annotations

from typing import Any

from calc.spec.hardware import Device
from calc.time.device.priors import factors, priors, published_gemm, spread_between
from calc.time.device.profile import Launch
from calc.time.models.decoding import DecodeModel
from calc.time.models.flash import AttentionModel
from calc.time.models.limits import Limits, limits_of
from calc.time.models.smooth import Smooth, SmoothAttention, SmoothDecode, SmoothGemm
from calc.trace.functions import ATTENTION_BACK

PLAIN = ("fp32", "bf16", "fp16", "fp8", "fp4", "int8")
"""Formats whose published peak is that of plain products."""


def is_tpu(device: Device) -> bool:
    """Whether a device has a few large systolic arrays in the place of many cores, and runs what XLA compiles."""
    return device.architecture.startswith("TPU")


def in_tiles(device: Device) -> bool:
    """Whether products are timed by tiles that its cores are handed: a GPU whose cores are known."""
    return device.cores is not None and not is_tpu(device)


def published_models(device: Device) -> dict[str, dict[str, Any]]:
    """Models of products, attention, its backward and its decoding, each by number format; keys: fields of `Speed`.

    Formats without a published peak are left out.
    """
    limits = {dtype: limits_of(device, dtype) for dtype in device.known_peaks if dtype in PLAIN}
    if not in_tiles(device):
        return {
            "gemm": {dtype: _plain(SmoothGemm, each) for dtype, each in limits.items()},
            "attention": {dtype: _plain(SmoothAttention, each) for dtype, each in limits.items()},
            "attention_backward": {
                dtype: _plain(SmoothAttention, each, ATTENTION_BACK) for dtype, each in limits.items()
            },
            "decode": {dtype: _plain(SmoothDecode, each) for dtype, each in limits.items()},
        }
    spread = {"spread": spread_between(*factors("attention"))}
    attention = {dtype: AttentionModel.prior(each).model_copy(update=spread) for dtype, each in limits.items()}
    return {
        "gemm": {dtype: published_gemm(each, device.architecture) for dtype, each in limits.items()},
        "attention": attention,
        "attention_backward": {dtype: each.backward().model_copy(update=spread) for dtype, each in attention.items()},
        "decode": {dtype: DecodeModel.prior(each).model_copy(update=spread) for dtype, each in limits.items()},
    }


def published_launch(device: Device | None = None) -> Launch:
    """What launching costs where it was not measured, as [launch] says; a TPU's program runs like a graph."""
    table = priors()["launch"]
    names = ("eager", "module", "backward", "compiled", "graph")
    each = {name: table["graph" if device is not None and is_tpu(device) else name] for name in names}
    return Launch(**each, step=table["step"])


def _plain(kind: type[Smooth], limits: Limits, times: float = 1.0) -> Smooth:
    """A roofline at what accelerators reach, as [roofline] says: the constants of tiles and of waves over cores are
    those of GPUs, each of whose cores is a hundredth of the device."""
    table = priors()["roofline"]
    return kind(
        itemsize=limits.itemsize,
        per_flop=times / (limits.peak * table["peak"]),
        per_byte=times / (limits.bandwidth * table["bandwidth"]),
        start=priors()["launch"]["graph"],
        spread=spread_between(table["low"], table["high"]),
    )
