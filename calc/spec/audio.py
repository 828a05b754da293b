"""The front of sound: convolutions over frames of a spectrogram, or over raw samples, that shorten the sequence."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.channels import Activation
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm
from calc.spec.positions import Sinusoid


class Across(Node):
    """How a convolution runs over the values of a frame, where that differs from time: kernel, stride, zeros on either
    side."""

    kernel: int = Field(gt=0, le=10**4)
    stride: int = Field(default=1, gt=0, le=10**4)
    padding: int = Field(default=0, ge=0, le=10**4)

    def left(self, n: int) -> int:
        """How many values are left of n."""
        return (n + 2 * self.padding - self.kernel) // self.stride + 1


class Convolution(Node):
    """One convolution over time, or over time and the values of a frame (dims 2, a square kernel), and its activation.

    n_channels: that it gives; a glu halves them. padding: zeros on either side. norm: a weight and a bias for each
    channel, over one step's channels (`layer`), over one channel's steps (`channel`), or over the batch (`batch`); a
    weight alone, over all channels and values of the steps so far (`cumulative`), behind which a step's channels lie
    side by side for each value. eps: of that one.
    depthwise: each channel has a kernel of its own, so that as many come out as go in.
    behind: all zeros of time stand behind the last step, `padding` of them, laid there ahead of the convolution.
    across: over a frame's values, as it says there; None: as over time.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    n_channels: Dim
    kernel: int = Field(gt=0, le=10**4)
    stride: int = Field(default=1, gt=0, le=10**4)
    padding: int = Field(default=0, ge=0, le=10**4)
    dims: Literal[1, 2] = 1
    bias: bool = True
    depthwise: bool = False
    glu: bool = False
    norm: Literal["layer", "channel", "batch", "cumulative"] | None = None
    eps: float = Field(default=1e-3, ge=0)
    behind: bool = False
    across: Across | None = None
    activation: Activation | None = "gelu"

    @model_validator(mode="after")
    def _over_values(self) -> Self:
        if self.across is not None and (self.dims == 1 or not self.behind):
            raise Refused("across", "none, unless it runs over values (dims 2), with zeros behind time", "one")
        if self.dims == 2 and self.behind and self.across is None:
            raise Refused("across", "how it runs over values, where zeros of time stand behind it", "none")
        if self.norm == "cumulative" and (self.dims == 1 or self.glu):
            raise Refused("norm", "layer, channel or batch, unless it runs over values (dims 2) without glu", self.norm)
        return self

    def group(self, outer: str) -> str:
        """Its own name, with its tower's before it: convolutions differ in channels."""
        return f"{outer}_{self.name}" if outer else self.name

    def steps(self, n: int) -> int:
        """How many steps are left of n."""
        return (n + self.zeros - self.kernel) // self.stride + 1

    def values(self, n: int) -> int:
        """How many of n values are left of a frame."""
        return self.steps(n) if self.across is None else self.across.left(n)

    @property
    def zeros(self) -> int:
        """How many stand beside a sequence."""
        return self.padding if self.behind else 2 * self.padding

    @property
    def kernels(self) -> tuple[int, ...]:
        """Along each axis."""
        return (self.kernel,) * self.dims if self.across is None else (self.kernel, self.across.kernel)


class PositionConvolution(Node):
    """A grouped convolution over the sequence whose result is added in place of positions (Baevski et al. 2020).

    Half the kernel is padded on either side, and an even kernel's one step too many is dropped. The weight is kept as
    directions and, for each step of the kernel, a length (weight normalisation: Salimans & Kingma 2016).
    runs: False where the weights are there and nothing uses them (wav2vec2-conformer).
    """

    kernel: int = Field(gt=0, le=10**4)
    n_groups: int = Field(gt=0, le=10**6)
    runs: bool = True


class Quantizer(Node):
    """Codebooks that give the targets of a contrastive loss (wav2vec 2.0: Baevski et al. 2020, section 2).

    n_codebooks: how many an entry is chosen from at once. n_entries: of each. d_code: width of all chosen entries
    together. d_target: to which they are projected.
    """

    n_codebooks: int = Field(gt=0, le=10**4)
    n_entries: Dim
    d_code: Dim
    d_target: Dim


class Frames(Node):
    """Audio to vectors: convolutions, what they give as one vector a step, projection, positions.

    n_frames: frames (or samples) of one sequence that the model is made for; a Load's `source` takes their place. None:
    it has no length of its own, and reads as many as the sequence asked for has.
    piece: convolutions run over so many frames at a time, with zeros at both ends of each, and what positions are added
    begin anew in each (Qwen3-Omni); None: over all frames of a sequence.
    d_frame: values of a frame, e.g. mel bins; 1 for raw samples. before: a norm ahead of the projection.
    convolutions: none, where each frame is a vector.
    project: whether a dense layer brings the result to d_model; without one the last convolution must give d_model.
    scale: what the vectors are multiplied with before positions are added.
    n_positions, trained_positions: rows of a position table and whether it is learned; one that is not holds sinusoids.
    sinusoidal: fixed positions are added, the first numbered position_offset. sinusoid: their order, see `Sinusoid`.
    mask_vector: a learned vector takes the place of masked steps. norm: on the sum, ahead of the layers.
    """

    kind: Literal["frames"] = "frames"
    n_frames: Dim | None = None
    piece: int | None = Field(default=None, gt=0, le=2**31)
    d_frame: Dim
    convolutions: tuple[Convolution, ...]
    before: Norm | None = None
    project: bool = True
    project_bias: bool = True
    scale: float = 1.0
    n_positions: Dim | None = None
    trained_positions: bool = True
    sinusoidal: bool = False
    sinusoid: Sinusoid = "alternating"
    position_offset: int = 0
    position_convolution: PositionConvolution | None = None
    quantizer: Quantizer | None = None
    mask_vector: bool = False
    norm: Norm | None = None

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        if self.piece is not None and (self.n_frames is None or self.n_positions is not None):
            raise Refused("piece", "null, without frames of one length or with a table of positions", self.piece)
        if self.piece is not None and isinstance(self.n_frames, int) and self.n_frames % self.piece:
            raise Refused("n_frames", f"whole pieces of {self.piece}", self.n_frames)
        if self.n_frames is not None and self.vectors_of(self.n_frames) < 1:
            raise Refused("n_frames", "more than the convolutions take away", self.n_frames)
        order = [each.dims for each in self.convolutions]
        if order != sorted(order, reverse=True):
            raise Refused("convolutions", "those over frame values (dims 2) ahead of those over time alone", order)
        if not order and not self.project:
            raise Refused("project", "true, where no convolution gives d_model", False)
        return self

    @property
    def over_values(self) -> bool:
        """Whether the first convolution runs over the values of a frame too."""
        return bool(self.convolutions) and self.convolutions[0].dims == 2

    def vectors_of(self, n_frames: int) -> int:
        """How many vectors so many frames give."""
        pieces, left = (1, n_frames) if self.piece is None else (n_frames // self.piece, self.piece)
        for each in self.convolutions:
            left = each.steps(left)
        return pieces * left
