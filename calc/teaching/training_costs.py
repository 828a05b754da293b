"""Trainings that the lecture notes print the cost of, predicted for the hardware of their time."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from calc.architectures import from_config
from calc.architectures.models import load_model
from calc.ask.estimate import estimate
from calc.blocks.build import vectors_read
from calc.reading.files import parse_toml, read_text
from calc.spec import ModelSpec
from calc.spec.catalogue import HARDWARE, load_device
from calc.time import predict
from calc.time.device.datasheet import is_tpu

FACTS = HARDWARE.parent / "published" / "training_costs.toml"
_HOUR, _DAY = 3600.0, 86_400.0
_CORES = 2
"""TensorCores of a TPU v3 chip, in which its core-days are counted."""


class TrainingCost(NamedTuple):
    """One training. unit: of printed, predicted, low and high: `hours` of the whole machine, or `core-days`.

    least: in the same unit, what the products alone take at the datasheet's peak. verdict: `within` the interval, or
    `differs`. why: what was taken for it.
    """

    name: str
    device: str
    unit: str
    printed: float
    predicted: float
    low: float
    high: float
    least: float
    verdict: str
    why: str
    source: str


@cache
def training_costs() -> tuple[TrainingCost, ...]:
    """All of them, each from `calc.time` of one step and the number of its steps."""
    facts = parse_toml(read_text(FACTS), FACTS.name)
    return tuple(_cost(one, facts["sources"]) for one in facts["trainings"])


def _cost(one: dict[str, Any], sources: dict[str, Any]) -> TrainingCost:
    spec = _vit(one["vit"]) if "vit" in one else load_model(one["model"])
    device, ranks, batch = load_device(one["device"]), one.get("devices", 1), one["batch"]
    seq = vectors_read(spec, one.get("seq", 1))
    source_seq = seq if spec.encoder else None
    found = predict(
        spec,
        device,
        phase="training",
        batch=batch,
        seq=seq,
        source_seq=source_seq,
        recipe=one["dtype"],
        execution="compiled" if is_tpu(device) else "sdpa",
        dp=ranks,
    )
    steps = one.get("steps") or one["pictures"] * one["epochs"] / batch
    unit = steps / _HOUR if one["unit"] == "hours" else steps * _CORES / _DAY
    flops = estimate(spec, "flops.training", batch=batch, seq=seq).value
    peak = float(device.peak("fp32" if one["dtype"] == "fp32" else "bf16"))
    low, high = found.interval.low * unit, found.interval.high * unit
    least = flops / peak * unit
    source = sources[one["source"]]
    return TrainingCost(
        name=one["name"],
        device=f"{ranks} x {device.name}" if one["unit"] == "hours" else device.name,
        unit=one["unit"],
        printed=float(one["printed"]),
        predicted=found.seconds * unit,
        low=low,
        high=high,
        least=least,
        verdict="within" if low <= one["printed"] <= high else "differs",
        why=_why(one, found.seconds, least),
        source=f"{source['document']}; {source['where']}",
    )


def _why(one: dict[str, Any], seconds: float, least: float) -> str:
    share = f"in the printed time the products reach {least / one['printed']:.0%} of the peak"
    if one["unit"] == "hours":
        return f"{one['batch']} sentences of {one['seq']} + {one['seq']} tokens a GPU, {seconds:.2f} s a step; {share}"
    return f"{one['batch']} pictures a chip, {seconds:.2f} s a step; {share}"


def _vit(sizes: dict[str, int]) -> ModelSpec:
    config = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 224}
    return from_config({**config, "num_labels": 1000, **sizes}, "vit")
