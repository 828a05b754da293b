"""What runs: a pass, a step or a token, over how many sequences of what length."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo, model_validator

from calc import checks
from calc.errors import Refused
from calc.sizes import Size
from calc.spec.load import Load
from calc.spec.routing import USUAL, read_routing
from calc.spec.run.node import FromZero, MaybePositive, Positive, RunNode, Word, YesNo

Phase = Literal["forward", "prefill", "decode", "training"]
Mode = Literal["training", "inference"]
PHASES: tuple[Phase, ...] = get_args(Phase)
COUNTED_PHASES: tuple[Phase, ...] = ("forward", "training", "decode")
"""The phases whose FLOPs and bytes moved are counted, whatever the model reads."""
SERVED_PHASES: tuple[Phase, ...] = ("prefill", "decode")
"""The phases that only servers run; a forward pass alone may be of either mode."""
FLOPS_PHASES: tuple[Phase, ...] = ("forward", "prefill", "training", "decode")
"""The phases whose FLOPs are counted."""
MODES: tuple[Mode, ...] = get_args(Mode)


def _picture(value: Any, info: ValidationInfo) -> tuple[Size, Size] | None:
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        raise Refused("image", "a height and a width in pixels", value)
    height, width = (checks.size("image", side) for side in value)
    return height, width


class Workload(RunNode):
    """What runs. Of parallel ranks, `batch` is what one data-parallel rank has in one pass: its micro-batch.

    mode follows from the phase where nobody says it: inference for what only servers run, else training.
    Errors: Refused for a mode that the phase contradicts.
    """

    phase: Annotated[Phase, PlainValidator(Word(lambda: PHASES))] = Field(
        default="forward",
        description="What is run: forward has logits at all positions, prefill of the last token alone, decode is one "
        "token more for each sequence, training a step.",
    )
    mode: Annotated[Mode, PlainValidator(Word(lambda: MODES))] = Field(
        default="training", description="What memory is held for: a step of training, or a server's passes."
    )
    batch: Positive = Field(default=1, description="Sequences.")
    seq: Positive = Field(default=2048, description="Tokens in each sequence.")
    context: FromZero = Field(default=2048, description="Decode: tokens already in the cache.")
    source_seq: MaybePositive = Field(
        default=None,
        description="Length of what an encoder reads, tokens or frames of audio; frames that an audio tower hears.",
    )
    images: FromZero = Field(default=0, description="Language models with a vision tower: pictures a batch.")
    image: Annotated[tuple[Size, Size] | None, BeforeValidator(_picture)] = Field(
        default=None, description="Height and width of a picture, in pixels."
    )
    routing: Annotated[str, PlainValidator(read_routing)] = Field(
        default=USUAL,
        description="How evenly tokens choose experts, and so how many of them a batch reaches: balanced, as many as "
        "it can; or in expectation, uniform or power-law:ALPHA.",
    )
    document: MaybePositive = Field(
        default=None,
        description="Tokens of a document, of which a sequence holds several side by side (packed); attention stays "
        "within each, as kernels run it that are told where documents end.",
    )
    mtp: YesNo = Field(default=False, description="Count the modules that predict further tokens too.")

    @model_validator(mode="after")
    def _mode_of_the_phase(self) -> Workload:
        if self.phase == "forward":
            return self
        own: Mode = "inference" if self.phase in SERVED_PHASES else "training"
        if "mode" not in self.model_fields_set:
            # Not told but followed, so that another phase of the same run has its own.
            object.__setattr__(self, "mode", own)
        elif self.mode != own:
            raise Refused("mode", f"{own} for phase {self.phase}", self.mode)
        return self

    @model_validator(mode="after")
    def _whole_documents(self) -> Workload:
        if self.document is None:
            return self
        if self.mode != "training":
            raise Refused("document", "none where a model serves, whose requests are apart", self.document)
        if isinstance(self.seq, int) and isinstance(self.document, int) and self.seq % self.document:
            raise Refused("document", f"a divisor of seq = {self.seq}, so that sequences are filled up", self.document)
        return self

    @property
    def new_tokens(self) -> Size:
        """New tokens of one sequence in one pass."""
        return 1 if self.phase == "decode" else self.seq

    @property
    def tokens(self) -> Size:
        """New tokens of one pass over the whole batch of one data-parallel rank."""
        return self.batch if self.phase == "decode" else self.batch * self.seq

    @property
    def trains(self) -> bool:
        """Whether a step of training runs."""
        return self.phase == "training"

    def load(self, **changes: Any) -> Load:
        """What one forward pass over the batch is given; `changes` are fields of Load."""
        fields = {
            "batch": self.batch,
            "seq": self.seq,
            "source": self.source_seq,
            "usual_source": self.seq,
            "images": self.images,
            "image": self.image,
            "routing": self.routing,
            "mtp": self.mtp and self.phase != "decode",
            "document": self.document,
        }
        return Load(**(fields | changes))
