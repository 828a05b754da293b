"""How fast a device is, from whatever is known of it: a profile, a relative's profile, or its datasheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from textwrap import shorten
from typing import Any, Literal

from calc.errors import Refused
from calc.spec.cache_key import CacheKey
from calc.spec.catalogue import device_names, load_device
from calc.spec.fields import DeviceKind
from calc.spec.hardware import Device
from calc.time.device.datasheet import PLAIN, published_launch, published_models
from calc.time.device.priors import PublishedPass
from calc.time.device.profile import (
    PROFILES,
    STACKS,
    Launch,
    Profile,
    profile_named,
    shipped_devices,
    shipped_profile,
)
from calc.time.device.relatives import moved, relatives_of, wider
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


def speed_of(where: Speed | Profile | Device | str) -> Speed:
    """The speed of what `where` is or names: a profile, a device, a shipped profile, a device of the catalogue.

    A device is as fast as a shipped profile of it says, else as one of its architecture, else as its datasheet.
    Errors: Refused for an unknown name.
    """
    if isinstance(where, Speed):
        return where
    if isinstance(where, Profile):
        return _of_profile(CacheKey(where))
    if isinstance(where, Device):
        known = where.name in device_names() and load_device(where.name) == where
        return on_stack(where.name) if known else from_device(where)
    return _named(where)


@lru_cache(maxsize=8)
def _of_profile(profile: CacheKey[Profile]) -> Speed:
    """One Speed for each profile, so that what was asked of it stays known."""
    return from_profile(profile.value)


@cache
def _named(name: str) -> Speed:
    if name.endswith(".json"):
        return from_profile(profile_named(name))
    try:
        return on_stack(load_device(name).name)
    except Refused:
        if (PROFILES / f"{name}.json").is_file():
            return from_profile(profile_named(name))
        raise


@cache
def on_stack(name: str, stack: str = STACKS[0]) -> Speed:
    """What is best known of a device of the catalogue, measured on it, on its relatives, or published; what was not
    measured under one of `STACKS` is that of the others. Errors: Refused for an unknown device or stack."""
    if stack not in STACKS:
        raise Refused("stack", f"one of {', '.join(STACKS)}", stack)
    own = _measured(name, stack)
    if own is not None:
        return own
    device = load_device(name)
    measured = ((_measured(each, stack), weight) for each, weight in relatives_of(device, shipped_devices()).items())
    found = [(speed, weight) for speed, weight in measured if speed is not None]
    return from_relatives(found, device) if found else from_device(device)


@cache
def _measured(name: str, stack: str) -> Speed | None:
    """What shipped profiles say of a device: those of one stack, and what it lacks from the others."""
    order = (stack, *(one for one in STACKS if one != stack))
    found = [from_profile(one) for one in (shipped_profile(name, each) for each in order) if one is not None]
    if not found:
        return None
    tables = {name: _joined([getattr(one, name) for one in found], TINY.get(name)) for name in TABLES}
    return replace(found[0], **tables)


TINY = {"gemm": (1, 256, 256), "attention": (1, 8, 8, 16), "decode": (1, 8, 1, 16)}
"""Arguments of `seconds` for next to no work, by table; what experts take to start is a handful of kernels, more or
fewer by library, and tells nothing."""
HELD_UP = 2.0
"""Times the start of another stack's kernel from which on a measured start is taken for the host's launching: tables
hold products whose quantization was launched from Python, 12 us at least in fp8 and up to 400 us in blocks, beside 5 us
for the same in a graph. A step's model knows what launching costs; its kernels must not hold it again."""


def _joined(tables: Sequence[Mapping[str, Any]], tiny: tuple[int, ...] | None) -> dict[str, Any]:
    """Everything that any of the tables has: the first that has it, or, of kernels whose starts can be compared, the
    first whose start is not the host's."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        models = [table[name] for table in tables if name in table]
        starts = [model.seconds(*tiny) if tiny and len(models) > 1 else 0.0 for model in models]
        found[name] = next(model for model, start in zip(models, starts, strict=True) if start <= HELD_UP * min(starts))
    return found


def starts_at_once(speed: Speed, name: str, plain: str) -> bool:
    """Whether products of format `name` start about as fast as those of `plain`, so that a time is the device's."""
    if name not in speed.gemm or plain not in speed.gemm:
        return name in speed.gemm
    start, usual = (speed.gemm[each].seconds(*TINY["gemm"]) for each in (name, plain))
    return start <= HELD_UP * usual


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
