"""How fast a device is, from whatever is known of it: a profile, a relative's profile, or its datasheet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from textwrap import shorten
from typing import Any, Literal

from calc.errors import Refused
from calc.spec.catalogue import device_names, load_device
from calc.spec.hardware import Device
from calc.spec.same import Same
from calc.time.device.datasheet import PLAIN, published_launch, published_models
from calc.time.device.limits import limits_of
from calc.time.device.priors import PublishedPass, priors
from calc.time.device.profile import PROFILES, Launch, Profile, profile_named, shipped_profile
from calc.time.kernels.collective import CollectiveModel
from calc.time.kernels.kernel import COLLECTIVES
from calc.time.kernels.passes import PassModel

Rests = Literal["profile", "relative", "datasheet"]


@dataclass(frozen=True)
class Speed:
    """Models of time of one device, and what to do where one is missing.

    rests: what they rest on: measurements on it, those on a relative moved by datasheet figures, or the datasheet with
    the efficiencies of calc/data/priors.toml. device: its entry in the catalogue, from which what is missing is made.
    gemm, attention, attention_backward, decode, passes, launch, collectives: as in `Profile`. wider: the exponent by
    which intervals of the models are widened. steps: whether what PyTorch does between kernels was measured, so that a
    step is its kernels. peaks: measured FLOP/s by format where no datasheet says.
    """

    name: str
    kind: Literal["cuda", "cpu"]
    rests: Rests
    source: str
    device: Device | None = None
    gemm: Mapping[str, Any] = field(default_factory=dict)
    attention: Mapping[str, Any] = field(default_factory=dict)
    attention_backward: Mapping[str, Any] = field(default_factory=dict)
    decode: Mapping[str, Any] = field(default_factory=dict)
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


def speed_of(where: Speed | Profile | Device | str) -> Speed:
    """The speed of what `where` is or names: a profile, a device, a shipped profile, a device of the catalogue.

    A device is as fast as a shipped profile of it says, else as one of its architecture, else as its datasheet.
    Errors: Refused for an unknown name.
    """
    if isinstance(where, Speed):
        return where
    if isinstance(where, Profile):
        return _of_profile(Same(where))
    if isinstance(where, Device):
        known = where.name in device_names() and load_device(where.name) == where
        return _best(where.name) if known else from_device(where)
    return _named(where)


@lru_cache(maxsize=8)
def _of_profile(profile: Same[Profile]) -> Speed:
    """One Speed for each profile, so that what was asked of it stays known."""
    return from_profile(profile.value)


@cache
def _named(name: str) -> Speed:
    if name.endswith(".json"):
        return from_profile(profile_named(name))
    try:
        return _best(load_device(name).name)
    except Refused:
        if (PROFILES / f"{name}.json").is_file():
            return from_profile(profile_named(name))
        raise


@cache
def _best(name: str) -> Speed:
    """What is best known of a device of the catalogue."""
    own = shipped_profile(name)
    if own is not None:
        return from_profile(own)
    device = load_device(name)
    relative = priors()["relatives"].get(device.architecture)
    found = shipped_profile(relative) if isinstance(relative, str) else None
    return from_device(device) if found is None else from_relative(found, device)


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
        rests="profile",
        source=f"profile {profile.name} of {how.made}: {shorten(how.source, 110, placeholder=' …')}",
        device=device,
        gemm=profile.gemm,
        attention=profile.attention,
        attention_backward=profile.attention_backward,
        decode=profile.decode,
        passes=profile.passes,
        launch=launch,
        collectives=profile.collectives,
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
        rests="datasheet",
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


def from_relative(profile: Profile, device: Device) -> Speed:
    """The models of a device of the same architecture, moved by what the two datasheets say."""
    base = from_profile(profile)
    origin = base.device
    assert origin is not None
    faster = device.bandwidth.value / origin.bandwidth.value
    links = base.collectives
    if origin.link_one_way and device.link_one_way:
        links = {op: each.moved(origin.link_one_way, device.link_one_way) for op, each in links.items()}
    return replace(
        base,
        name=device.name,
        rests="relative",
        source=f"{base.source}, moved to {device.name} by datasheet figures",
        device=device,
        gemm=_moved(base.gemm, origin, device),
        attention=_moved(base.attention, origin, device),
        attention_backward=_moved(base.attention_backward, origin, device),
        decode=_moved(base.decode, origin, device),
        passes={dtype: {name: moved_pass(one, faster) for name, one in t.items()} for dtype, t in base.passes.items()},
        collectives=links,
        wider=priors()["relatives"]["wider"],
    )


def _moved(models: Mapping[str, Any], origin: Device, device: Device) -> dict[str, Any]:
    """Models by format on another device; those of formats that either has no peak of are left out."""
    found = {}
    for name, model in models.items():
        dtype = name.partition(".")[0]
        if dtype in origin.known_peaks and dtype in device.known_peaks:
            found[name] = model.moved(limits_of(origin, dtype), limits_of(device, dtype))
    return found


def moved_pass(model: PassModel, faster: float) -> PassModel:
    """A pass on a memory so many times as fast: what is beyond the smallest one's time takes that much less."""
    least = min(seconds for _, seconds in model.knots)
    knots = tuple((size, least + (seconds - least) / faster) for size, seconds in model.knots)
    return model.model_copy(update={"knots": knots})
