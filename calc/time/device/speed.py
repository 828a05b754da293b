"""How fast a device is, from whatever is known of it: a profile, a relative's profile, or its datasheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from textwrap import shorten
from typing import Any, Literal

from calc.errors import Refused
from calc.spec.catalogue import load_device
from calc.spec.fields import DeviceKind
from calc.spec.hardware import Device
from calc.time.device.datasheet import PLAIN, published_launch, published_models
from calc.time.device.priors import PublishedPass
from calc.time.device.profile import Launch, Profile
from calc.time.device.relatives import moved, wider
from calc.time.models.blend import blended
from calc.time.models.collective import COLLECTIVES, CollectiveModel
from calc.time.models.limits import has_peak
from calc.time.models.passes import PassModel

Basis = Literal["profile", "relative", "datasheet"]
COMPUTED = ("gemm", "attention", "attention_backward", "decode", "experts", "delta_rule", "convolution")
"""Tables of kernels whose limits are those of one device."""
TABLES = (*COMPUTED, "exchange", "collectives")


@dataclass(frozen=True)
class Speed:
    """Models of time of one device, and what to do where one is missing.

    basis: what they rest on: measurements on it, those on a relative moved by datasheet figures, or the datasheet with
    the efficiencies of calc/data/priors.toml. device: its entry in the catalogue, from which what is missing is made.
    gemm, attention, attention_backward, decode, experts, delta_rule, convolution, exchange, passes, launch,
    collectives: as in `Profile`. wider: the exponent by
    which intervals of the models are widened. steps: whether what PyTorch does between kernels was measured, so that a
    step is its kernels. peaks: measured FLOP/s by format where no datasheet says.
    """

    name: str
    kind: DeviceKind
    basis: Basis
    source: str
    device: Device | None = None
    gemm: Mapping[str, Any] = field(default_factory=dict)
    attention: Mapping[str, Any] = field(default_factory=dict)
    attention_backward: Mapping[str, Any] = field(default_factory=dict)
    decode: Mapping[str, Any] = field(default_factory=dict)
    experts: Mapping[str, Any] = field(default_factory=dict)
    delta_rule: Mapping[str, Any] = field(default_factory=dict)
    convolution: Mapping[str, Any] = field(default_factory=dict)
    exchange: Mapping[str, Any] = field(default_factory=dict)
    passes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    launch: Launch | None = None
    collectives: Mapping[str, Any] = field(default_factory=dict)
    wider: float = 1.0
    steps: bool = True
    peaks: Mapping[str, float] = field(default_factory=dict)

    def peak(self, dtype: str) -> float:
        """FLOP/s of dense products: the datasheet's, or without one the most that was measured. Errors: Refused."""
        if dtype in self.rates:
            return self.rates[dtype]
        if self.device is not None:
            return float(self.device.peak(dtype))
        raise Refused("dtype", f"one that was measured on {self.name}: {', '.join(self.peaks) or 'none'}", dtype)

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """All that `peak` knows, by format."""
        if self.device is None:
            return self.peaks
        return {dtype: float(rate.value) for dtype, rate in self.device.known_peaks.items()}

    @cached_property
    def bandwidth(self) -> float:
        """Bytes/s of memory: the datasheet's, or without one those of the fastest copy measured."""
        if self.device is not None:
            return float(self.device.bandwidth.value)
        copies = [table["copy"] for table in self.passes.values() if "copy" in table]
        return max((size / seconds for copy in copies for size, seconds in copy.knots), default=float("inf"))

    @cached_property
    def published(self) -> Speed:
        """What the datasheet of the same device says. Errors: Refused where it is not in the catalogue."""
        if self.device is None:
            raise Refused("--profile", f"measurements of all that is asked, {self.name} having no datasheet", "a gap")
        return from_device(self.device)


def from_profile(profile: Profile) -> Speed:
    """What was measured."""
    device = load_device(profile.catalogue) if profile.catalogue else None
    how = profile.provenance
    launch = profile.launch
    if launch is None and profile.kind == "cuda":
        launch = published_launch()
    return Speed(
        name=profile.catalogue or profile.device,
        kind=profile.kind,
        basis="profile",
        source=f"profile {profile.name} of {how.made}: {shorten(how.source, 110, placeholder=' …')}",
        device=device,
        passes=profile.passes,
        launch=launch,
        **{table: getattr(profile, table) for table in TABLES},
        steps=profile.launch is not None,
        peaks={dtype: _largest_rate(model) for dtype, model in profile.gemm.items() if "." not in dtype},
    )


def _largest_rate(model: Any) -> float:
    """FLOP/s of the fastest of some large square products."""
    sides = (512, 1024, 2048, 4096, 8192)
    return max(2 * side**3 / float(model.seconds(side, side, side)) for side in sides)


def from_device(device: Device) -> Speed:
    """What the datasheet promises times what devices like it reach. Formats without a published peak are left out."""
    models = published_models(device)
    passes = {"copy": PublishedPass(float(device.bandwidth.value))}
    return Speed(
        name=device.name,
        kind="cuda",
        basis="datasheet",
        source=f"datasheet of {device.name} and the efficiencies of calc/data/priors.toml",
        device=device,
        gemm=models["gemm"],
        attention=models["attention"],
        attention_backward=models["attention_backward"],
        decode=models["decode"],
        passes=dict.fromkeys(PLAIN, passes),
        launch=published_launch(device),
        collectives=_links(device),
        steps=False,
    )


def _links(device: Device) -> dict[str, CollectiveModel]:
    if device.link_one_way is None:
        return {}
    link = float(device.link_one_way)
    return {op: CollectiveModel.prior(op, link) for op in COLLECTIVES}


def from_relatives(bases: Sequence[tuple[Speed, float]], device: Device) -> Speed:
    """The models of devices of the same architecture, the nearest first, each with how much it counts, moved by what
    the datasheets say. Passes, launches and collectives are the nearest one's."""
    base = bases[0][0]
    origin = base.device
    assert origin is not None
    faster = device.bandwidth.value / origin.bandwidth.value
    links: dict[str, CollectiveModel] = {}
    exchange: dict[str, Any] = {}
    if origin.link_one_way and device.link_one_way:
        ends = (origin.link_one_way, device.link_one_way)
        links = {op: each.moved(*ends) for op, each in base.collectives.items()}
        exchange = {name: each.on_links(*ends) for name, each in base.exchange.items()}
    others = "".join(f", {speed.name} counting {weight:.0%} as much" for speed, weight in bases[1:])
    return replace(
        base,
        name=device.name,
        basis="relative",
        source=f"{base.source}{others}, moved to {device.name} by datasheet figures",
        device=device,
        passes={dtype: {name: moved_pass(one, faster) for name, one in t.items()} for dtype, t in base.passes.items()},
        collectives=links,
        exchange=exchange,
        wider=wider(origin, device),
        **{table: _moved(table, bases, device) for table in COMPUTED},
    )


def _moved(table: str, bases: Sequence[tuple[Speed, float]], device: Device) -> dict[str, Any]:
    """The models of one table on another device, by format; those of formats that have no peak there are left out."""
    found: dict[str, list[tuple[Any, float]]] = {}
    for base, weight in bases:
        assert base.device is not None
        for name, model in getattr(base, table).items():
            plain = name.partition("@")[0]
            if has_peak(base.device, plain) and has_peak(device, plain):
                found.setdefault(name, []).append((moved(model, name, base.device, device), weight))
    return {name: blended(*zip(*parts, strict=True)) for name, parts in found.items()}


def moved_pass(model: PassModel, faster: float) -> PassModel:
    """A pass on a memory so many times as fast: what is beyond the smallest one's time takes that much less."""
    least = min(seconds for _, seconds in model.knots)
    knots = tuple((size, least + (seconds - least) / faster) for size, seconds in model.knots)
    return model.model_copy(update={"knots": knots})
