"""What is known of a device's speed: constants that were fitted to measurements, and how well they fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeFloat, Tag, ValidationError

from calc.errors import Refused
from calc.reading.files import parse_json, read_text
from calc.spec.fields import DeviceKind, Node, refuse
from calc.time.models.collective import CollectiveModel
from calc.time.models.decoding import DecodeModel
from calc.time.models.exchange import ExchangeModel
from calc.time.models.experts import ExpertsModel
from calc.time.models.flash import AttentionModel
from calc.time.models.gemm import GemmModel
from calc.time.models.passes import PassModel
from calc.time.models.scans import ConvolutionModel, DeltaRuleModel
from calc.time.models.smooth import SmoothAttention, SmoothDecode, SmoothGemm

LARGEST = 1e20
"""Above all rates, sizes and counts of a profile."""
SMALLEST = 1e-100
"""Below all that is not 0: quotients of smaller numbers overflow."""
STACKS = ("vllm", "trtllm", "sglang")
"""Serving engines whose kernels were measured; the first is what is meant where none is named."""
PROFILES = Path(__file__).parents[2] / "data" / "profiles"


def _read_as(model: Any) -> str:
    """How the numbers of a kernel are read: those of a device that is known inside say its limits."""
    named = model if isinstance(model, dict) else getattr(model, "model_fields_set", ())
    return "smooth" if "per_flop" in named or "per_byte" in named else "tiles"


# Told apart before they are read, so that a fault is that of the kind that was meant.
Products = Annotated[Annotated[GemmModel, Tag("tiles")] | Annotated[SmoothGemm, Tag("smooth")], Discriminator(_read_as)]
Prompts = Annotated[
    Annotated[AttentionModel, Tag("tiles")] | Annotated[SmoothAttention, Tag("smooth")], Discriminator(_read_as)
]
Tokens = Annotated[
    Annotated[DecodeModel, Tag("tiles")] | Annotated[SmoothDecode, Tag("smooth")], Discriminator(_read_as)
]


class Launch(Node):
    """Seconds that pass beside a kernel's work.

    eager: from one kernel to the next when Python asks for each, backward: when autograd does; module: when Python asks
    for it in a model's forward pass, with the modules around it; compiled: inside a compiled graph; graph: inside a
    CUDA graph; step: once for each step. None: not measured (a module's kernel then takes what any does).
    """

    eager: NonNegativeFloat
    module: NonNegativeFloat | None = None
    backward: NonNegativeFloat | None = None
    compiled: NonNegativeFloat | None = None
    graph: NonNegativeFloat | None = None
    step: NonNegativeFloat = 0.0


class Fit(Node):
    """How far predictions were from points that were not used for fitting.

    points: used. held_out: others, on which the errors were found, or folds of the same by cross-validation.
    mape, median_ape, worst: errors as fractions of the measured time. inside: share of times within the 90 % interval,
    on points that it was not made of.
    """

    points: int
    held_out: int
    mape: float
    median_ape: float
    worst: float
    how: Literal["held out", "cross-validated"]
    inside: float | None = None


class Provenance(Node):
    """Where the measurements are from. source: document or command; licence of it; made: the day; note: how fitted."""

    source: str
    licence: str
    made: str
    note: str = ""


class Profile(Node):
    """One device's speed.

    name: of the file. device: as it calls itself. kind: what runs on it. catalogue: its name in the catalogue, None
    where it is not in there. environment: what else was on the machine (versions, threads, clocks).
    gemm, attention, attention_backward, decode, experts (the routed experts of a layer), delta_rule and convolution
    (linear-time mixers): by FORMAT, behind it what it is used for (`bf16.latent`, `bf16.fp8_cache`), and behind that
    another than the usual kernel (`bf16@triton`). exchange: tokens to experts and back, by direction and mode.
    passes: by number format, then by `Function` of `calc.trace.op`, with `.backward` behind it for going back, `copy`
    for bytes alone, and `adamw` for a step.
    collectives: by the name of the operation. fits: error by the name of what was fitted (`gemm.bf16`, ...).
    """

    schema_version: Literal[1] = 1
    name: str
    device: str
    kind: DeviceKind
    catalogue: str | None = None
    environment: dict[str, Any] = Field(default_factory=dict)
    gemm: dict[str, Products] = Field(default_factory=dict)
    attention: dict[str, Prompts] = Field(default_factory=dict)
    attention_backward: dict[str, Prompts] = Field(default_factory=dict)
    decode: dict[str, Tokens] = Field(default_factory=dict)
    experts: dict[str, ExpertsModel] = Field(default_factory=dict)
    delta_rule: dict[str, DeltaRuleModel] = Field(default_factory=dict)
    convolution: dict[str, ConvolutionModel] = Field(default_factory=dict)
    exchange: dict[str, ExchangeModel] = Field(default_factory=dict)
    passes: dict[str, dict[str, PassModel]] = Field(default_factory=dict)
    launch: Launch | None = None
    collectives: dict[str, CollectiveModel] = Field(default_factory=dict)
    fits: dict[str, Fit] = Field(default_factory=dict)
    provenance: Provenance


def read_profile(path: Path) -> Profile:
    """The profile in a JSON file. Errors: Refused, one line, for anything else."""
    document = parse_json(read_text(path), str(path))
    _finite(document, str(path))
    try:
        # As JSON, where lists are tuples.
        return Profile.model_validate(document, strict=False)
    except ValidationError as error:
        raise refuse(error, str(path)) from None


def _finite(value: Any, where: str) -> None:
    """Errors: Refused for NaN and infinities, which JSON of Python's may hold, and for what no device has."""
    if isinstance(value, dict):
        for name, each in value.items():
            _finite(each, f"{where}: {name}" if ": " not in where else f"{where}.{name}")
    elif isinstance(value, list):
        for each in value:
            _finite(each, where)
    elif isinstance(value, int | float) and value and not SMALLEST < abs(value) < LARGEST:
        raise Refused(where, f"0 or a number between {SMALLEST:.0e} and {LARGEST:.0e}", value)


def shipped_profile(name: str, stack: str = STACKS[0]) -> Profile | None:
    """The profile that comes with the package for a device of the catalogue, of one of `STACKS`; None where there is
    none."""
    path = PROFILES / f"{shipped_name(name, stack)}.json"
    return read_profile(path) if path.is_file() else None


def shipped_name(name: str, stack: str) -> str:
    """What a shipped profile of a device is called."""
    return name if stack == STACKS[0] else f"{name}.{stack}"


def shipped_devices() -> tuple[str, ...]:
    """The devices of the catalogue that profiles come with."""
    return tuple(sorted({path.stem.partition(".")[0] for path in PROFILES.glob("*.json")}))


def profile_named(reference: str) -> Profile:
    """A shipped profile by its name, or one in a file. Errors: Refused, naming the shipped ones."""
    path = PROFILES / f"{reference}.json"
    if reference.replace("-", "").replace(".", "").isalnum() and path.is_file():
        return read_profile(path)
    if not Path(reference).suffix:
        names = sorted(path.stem for path in PROFILES.glob("*.json"))
        raise Refused("--profile", f"a JSON file or one of {', '.join(names)}", reference)
    return read_profile(Path(reference))
