"""What a device reaches when an engine serves on it: its datasheet times fitted shares, and an engine's overheads."""

from __future__ import annotations

from typing import Any, NamedTuple

from calc.errors import Refused
from calc.serve.constants import MOST, Constants, Fitted, constants_of, families_of, least
from calc.serve.expert_kernels import ExpertKernels, expert_kernels, kind_of
from calc.serve.formats import Format
from calc.serve.links import between_ranks, between_stages
from calc.serve.step import Rates
from calc.spec.hardware import Device
from calc.spec.run.engines import Engine, engine_named


def rates_of(
    device: Device,
    form: Format,
    engine: str,
    ranks: int,
    latent: bool,
    given: Constants | None = None,
    stages: int = 1,
    groups: int = 1,
) -> Rates:
    """The rates of a device with weights of a format.

    ranks: that sums cross, the GPUs of a sequence. latent: whether attention is over latents. given: constants in place
    of the shipped ones. stages: of a pipeline. groups: of so many ranks in each stage.
    Errors: Refused for a device of which peaks or links are not known, and for constants that lack one.
    """
    known, rules = constants_of(engine) if given is None else given, engine_named(engine)
    fitted = Fitted(known)
    family = family_of(device, engine)
    compute = form.computes(device)
    wide = _half_sums(device) if rules.half_sums else _peak(device, "bf16")
    narrow = max(_peak(device, compute), wide) if compute in ("bf16", "fp16") else _peak(device, compute)
    widened = form.bits < 16 and compute in ("bf16", "fp16")
    memory = float(device.bandwidth.value)
    reading = _reads(device, known.get("core"))
    attention = "latent" if latent else "heads"
    running = "widened" if widened else compute
    dense = fitted.share("computing", compute, family, engine, *(("widened",) if widened else ()))
    streaming = fitted.share("streaming", family, engine, running)
    kernel = fitted.of("kernel", family, engine)
    if rules.experts_alike:
        # Sorted in, up, down and summed, four kernels a layer.
        kernels = ExpertKernels(4 * kernel, streaming, dense)
    else:
        kernels = expert_kernels(family, engine, kind_of(form.of_kernels, running))
    narrows = not widened and form.bits < 16
    return Rates(
        narrow=narrow * dense,
        wide=wide * fitted.share("computing", "bf16", family, engine),
        grouped=narrow * least(kernels.compute * fitted.of("grouped", running), dense),
        streaming=reading * least(streaming * (fitted.of("widening") if widened else 1.0), MOST),
        experts=reading * least(kernels.stream * fitted.of("experts", family, engine, running), MOST),
        tile=kernels.tile,
        sorting=kernels.passes / memory,
        cache=memory * fitted.share("cache", attention, family, engine),
        decoding=wide * fitted.share("decoding", attention),
        prompts=wide * fitted.share("prompts", attention, family, engine),
        pass_rate=memory * fitted.share("passing"),
        kernel=kernel,
        eager=_besides("eager", fitted, rules, family),
        quantise=_besides("quantise", fitted, rules, family) if narrows else 0.0,
        routing=kernels.start * fitted.of("routing", family, engine),
        **_links(device, ranks, groups, stages, fitted, fitted.of("latency", family, engine)),
        **host_of(engine, known)._asdict(),
        skew=fitted.of("skew"),
        evenness=least(fitted.of("evenness"), 1.0),
    )


def _besides(name: str, fitted: Fitted, rules: Engine, family: str) -> float:
    """A constant's seconds; none under an engine that says that it takes none."""
    return 0.0 if name in rules.unfitted else fitted.of(name, family, rules.name)


def _links(device: Device, ranks: int, groups: int, stages: int, fitted: Fitted, linked: Any) -> dict[str, Any]:
    """What leads between the ranks of one sequence, between all of a stage (whose exchanges over fast links take
    `gathering` times as long as sums), and from a stage to the next, as `Rates` has it. linked: seconds in which a sum
    over two ranks with links begins.

    Errors: Refused for several of a device whose links are not known.
    """
    # Where attention is each group's own, tokens of all groups go to all of them and come back.
    longer = 1 + (fitted.of("gathering") - 1) * (1 - 1 / groups)
    ways = {
        "": between_ranks(device, ranks, fitted, linked),
        "wide_": between_ranks(device, ranks * groups, fitted, linked, longer),
        "stage_": between_stages(device, ranks * groups, stages, fitted, linked),
    }
    links = {f"{kind}link": way.bandwidth for kind, way in ways.items()}
    return links | {f"{kind}latency": way.begins for kind, way in ways.items()}


def request_seconds(engine: str, tokens: Any, given: Constants | None = None) -> Any:
    """Seconds of the host for a request with so many tokens of prompt: its connection, its tokens, the first answer."""
    fitted = Fitted(constants_of(engine) if given is None else given)
    return fitted.of("request", engine) + fitted.of("reading") * tokens


class Host(NamedTuple):
    """Seconds that an engine's host takes: `step`, of each step; of each sequence in it, while the device works
    (`sequence`) or while it does not (`serial`)."""

    step: Any
    sequence: Any
    serial: Any


def host_of(engine: str, given: Constants | None = None) -> Host:
    """What the host of an engine takes, whatever the device is."""
    fitted = Fitted(constants_of(engine) if given is None else given)
    each = fitted.of("sequence", engine)
    alone = engine_named(engine).serial
    return Host(fitted.of("step", engine), 0.0 if alone else each, each if alone else 0.0)


def rests_on(device: Device, engine: str) -> str:
    """What the rates of a device rest on, in words."""
    if _family(device, engine) in families_of(engine).measured:
        return "measured servers of its architecture"
    return "measured servers of other architectures, and its datasheet"


def family_of(device: Device, engine: str) -> str:
    """The family of architectures whose constants are taken, as they name it. Errors: as `_family` has them."""
    return _family(device, engine).replace(" ", "")


def is_known(device: Device, engine: str) -> bool:
    """Whether servers of an engine were measured on a device's architecture, or on one like it."""
    families = families_of(engine)
    return any(name in device.architecture for name in (*families.measured, *families.alike))


def _family(device: Device, engine: str) -> str:
    """The family of a device's architecture. Errors: Refused for one that no server was measured on, nor on one like
    it."""
    families = families_of(engine)
    names = (*families.measured, *families.alike)
    found = next((name for name in names if name in device.architecture), None)
    if found is None:
        raise Refused("--gpu", f"a device of {', '.join(names)}, whose servers were measured or are alike", device.name)
    return found


def _peak(device: Device, dtype: str) -> float:
    peaks = device.known_peaks
    for name in (dtype, "bf16", "fp16", "fp32"):
        if name in peaks:
            return float(peaks[name].value)
    raise Refused("--gpu", "a device with a published peak", device.name)


def _half_sums(device: Device) -> float:
    """Products in 16 bits with sums in 16 bits too, as llama.cpp has them: half of what the same units do in int8,
    which on GeForce cards is twice their rate with sums in 32 bits."""
    peaks = device.known_peaks
    wide = _peak(device, "fp16")
    return max(wide, float(peaks["int8"].value) / 2) if "int8" in peaks else wide


def _reads(device: Device, core: Any) -> Any:
    """Bytes a second that a stream of weights is read with: the memory's, or what all cores have under way of it at
    once (`core`, of one), where kernels keep few reads in flight."""
    memory = float(device.bandwidth.value)
    if core is None or device.cores is None:
        return memory
    return (memory**-4 + (core * float(device.cores.value)) ** -4) ** -0.25
