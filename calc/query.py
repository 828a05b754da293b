"""What a quantity is asked for: the load, and the conventions under which it is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from calc import checks
from calc.dtypes import CACHE_DTYPES, weight_dtype
from calc.errors import Refused
from calc.load import Load
from calc.sizes import Size

if TYPE_CHECKING:
    from calc.memory.plan import Plan
    from calc.spec import ModelSpec

Phase = Literal["forward", "training", "decode"]
Checkpointing = Literal["none", "selective", "selective-op", "full", "full-early-stop"]
WindowReading = Literal["tokens", "cache"]
LatentReading = Literal["expanded", "absorbed"]
Kernels = Literal["eager", "sdpa", "fused"]
PHASES: tuple[Phase, ...] = get_args(Phase)
CHECKPOINTING: tuple[Checkpointing, ...] = get_args(Checkpointing)
WINDOW_READINGS: tuple[WindowReading, ...] = get_args(WindowReading)
LATENT_READINGS: tuple[LatentReading, ...] = get_args(LatentReading)
KERNELS: tuple[Kernels, ...] = get_args(Kernels)

LOADS = ("batch", "seq", "context", "source_seq")
"""The fields of a Query that are sizes and may be symbols of a formula."""
PLAN_SIZES = ("dp", "tp", "pp", "cp", "ep", "zero", "micro_batches", "interleave", "checkpoint_every", "loss_chunks")
"""The fields of its plan that are sizes and may be asked for, or be columns of a sweep."""


class QueryOptions(TypedDict, total=False):
    """What may be asked of a quantity beside its name: the fields of a Query but the phase, which the name gives."""

    batch: Size
    seq: Size
    context: Size
    convention: str
    checkpointing: Checkpointing
    dtype: str
    window_reading: WindowReading
    state_dtype: str
    source_seq: Size | None
    images: Size
    image: tuple[Size, Size] | None
    latent_reading: LatentReading
    kernels: Kernels
    mtp: bool
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class Query:
    """One question to a model. Sizes may be ints, sympy expressions or float64 arrays.

    batch: sequences. seq: tokens of each. context: tokens already in the cache when one more is decoded.
    convention: a name of `calc.conventions`, looked up where it is used. dtype: as
        `calc.dtypes.weight_dtype` reads it.
    window_reading: `tokens`, a window of W holds W tokens; `cache`, W - 1, what a growing cache keeps after prefill.
    state_dtype: of recurrent state. source_seq: length of the encoder's input, None for the same as seq.
    images, image: pictures read beside the text, and their height and width in pixels.
    latent_reading: how latent attention decodes. `expanded`, keys and values of all cached tokens are made again, as
    transformers does; `absorbed`, their matrix is applied to the new token instead.
    kernels: which ops run as one, where bytes moved are asked for (`calc.quantities.traffic`).
    mtp: whether the modules that predict further tokens count too. plan: how the model is trained or served, None for
    the defaults of `calc.memory.Plan` on one GPU; then `batch` is the micro-batch of one data-parallel rank.
    Errors: Refused for what is no size (see `calc.checks.size`; floats pass, since `solve` looks for real roots) and
    for unknown words; TypeError for an unknown field. Integer arrays become float64.
    """

    batch: Size = 1
    seq: Size = 2048
    context: Size = 2048
    phase: Phase = "forward"
    convention: str = "torch"
    checkpointing: Checkpointing = "none"
    dtype: str = "bf16"
    window_reading: WindowReading = "tokens"
    state_dtype: str = "fp32"
    source_seq: Size | None = None
    images: Size = 0
    image: tuple[Size, Size] | None = None
    latent_reading: LatentReading = "expanded"
    kernels: Kernels = "fused"
    mtp: bool = False
    plan: Plan | None = None

    def __post_init__(self) -> None:
        checks.word("phase", self.phase, PHASES)
        checks.word("checkpointing", self.checkpointing, CHECKPOINTING)
        weight_dtype(self.dtype)
        checks.word("window_reading", self.window_reading, WINDOW_READINGS)
        checks.word("latent_reading", self.latent_reading, LATENT_READINGS)
        checks.word("kernels", self.kernels, KERNELS)
        checks.word("state_dtype", self.state_dtype, CACHE_DTYPES)
        for name, least in (("batch", 1), ("seq", 1), ("context", 0), ("images", 0)):
            object.__setattr__(self, name, checks.size(name, getattr(self, name), least))
        if self.source_seq is not None:
            object.__setattr__(self, "source_seq", checks.size("source_seq", self.source_seq))
        if self.image is not None:
            if not isinstance(self.image, tuple) or len(self.image) != 2:
                raise Refused("image", "a height and a width in pixels", self.image)
            object.__setattr__(self, "image", tuple(checks.size("image", side) for side in self.image))

    @property
    def tokens(self) -> Size:
        """New tokens of the whole batch in this phase."""
        return self.batch if self.phase == "decode" else self.batch * self.seq

    def placed(self, sizes: Mapping[str, Size]) -> Query:
        """This query with other sizes: by the names of LOADS its own, by those of PLAN_SIZES its plan's.

        Errors: as Query and `calc.memory.plan.Plan`.
        """
        own = {name: sizes[name] for name in LOADS if name in sizes}
        planned = {name: sizes[name] for name in PLAN_SIZES if name in sizes}
        if not planned:
            return replace(self, **own)
        from calc.memory.plan import Plan  # most queries have none, and it is long to load

        return replace(self, **own, plan=replace(self.plan or Plan(), **planned))

    def load(self, **changes: Any) -> Load:
        """The load of one forward pass over the batch; `changes` are fields of Load."""
        fields = {
            "batch": self.batch,
            "seq": self.seq,
            "source": self.source_seq,
            "usual_source": self.seq,
            "images": self.images,
            "image": self.image,
            "mtp": self.mtp and self.phase != "decode",
        }
        return Load(**(fields | changes))


def common_length(specs: Sequence[ModelSpec]) -> int:
    """2,048 tokens, or the longest sequence that all of `specs` take where that is less."""
    return min((2048, *(spec.max_seq_len for spec in specs if spec.max_seq_len)))


def common_context(specs: Sequence[ModelSpec], seq: int | None = None) -> int:
    """`seq` tokens, by default `common_length`, or one less where one more would be past what one of `specs` takes."""
    seq = common_length(specs) if seq is None else seq
    return seq - any(spec.max_seq_len == seq for spec in specs)


def ask(**options: Unpack[QueryOptions]) -> Query:
    """A Query that has an exact answer.

    Errors: as Query, and Refused for a size that is a float or a fraction: half a token is no load.
    """
    query = Query(**options)
    for name in (*LOADS, "images"):
        if isinstance(value := getattr(query, name), float | Fraction):
            raise Refused(name, "a whole number", value)
    return query
