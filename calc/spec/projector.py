"""What brings a vision tower's vectors to the width of the language model that reads them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.audio import Convolution
from calc.spec.channels import Activation, Mlp
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Dense(Node):
    """One dense layer of a projector. d_out: None means as wide as what it reads; the last layer of all gives the width
    of the stack that reads the projector, whatever stands here. activated: an activation stands between this layer and
    the one before it. gated: the second half of what the layer before it gives passes the activation, and is multiplied
    with the first half."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    d_out: Dim | None = None
    bias: bool = True
    activated: bool = True
    gated: bool = False

    def group(self, outer: str) -> str:
        """Its own name behind its projector's: the layers differ in width."""
        return f"{outer}_{self.name}"


class Projector(Node):
    """Neighbouring vectors joined, normed and passed through dense layers with an activation between them.

    convolutions: over rows and columns of a tower's vectors, ahead of all else (Step 3.7).
    merge: how many vectors become one, side by side (`concat`: Qwen-VL's 2 x 2 patches) or as their `mean` (Gemma 3);
    `mean-product` is the mean as a product with a matrix of ones and zeros, which multiplies every vector with every
    result (Gemma 4). skip: vectors that it leaves out (class tokens), at the
    end (Llama 4), or where skip_first at the beginning (InternVL).
    merge_rows: of how many rows of the picture those are (2 x 2 patches: 2); row by row they stand side by side.
    scale: what is multiplied with what joining gave. standardized: a mean is then subtracted from each value, and the
        rest multiplied with a scale; both were measured elsewhere and are no parameters (Gemma 4).
    after, channel: a norm and the activation on what the layers give, and an MLP behind them (GLM-4.1V).
    newline: a learned vector that ends each row where tiles of one picture are laid together (LLaVA-NeXT). A tower sees
        tiles, and none of these: how many there are follows from the shape of a picture that no Load knows.
    n_unread_marks: how many learned vectors, of the marks around a sound, are there and nothing reads (Qwen2.5-Omni).
    before, norm: on each vector before joining, and on what all this gave. depths: numbers of the layers whose results
    are read, each by such a projector of its own (Qwen3-VL's DeepStack); empty: one reads what leaves the tower.
    """

    name: str = Field(default="projector", pattern=r"^[a-z][a-z0-9_]*$")
    depths: tuple[int, ...] = ()
    convolutions: tuple[Convolution, ...] = ()
    merge: int = Field(default=1, gt=0, le=4096)
    merge_rows: int = Field(default=1, gt=0, le=4096)
    join: Literal["concat", "mean", "mean-product"] = "concat"
    skip: int = Field(default=0, ge=0, le=2**16)
    skip_first: bool = False
    scale: float = 1.0
    standardized: bool = False
    before: Norm | None = None
    norm: Norm | None = None
    after: Norm | None = None
    channel: Mlp | None = None
    newline: bool = False
    n_unread_marks: int = Field(default=0, ge=0, le=4096)
    layers: tuple[Dense, ...] = Field(min_length=1)
    activation: Activation = "gelu"

    @model_validator(mode="after")
    def _whole_rows(self) -> Self:
        if (self.after is None) is not (self.channel is None):
            raise Refused("after", "a norm ahead of a channel mixer, or neither", self.after)
        if self.convolutions and (self.depths or self.skip or self.merge > 1 or self.before is not None):
            raise Refused("convolutions", "none where vectors are left out, joined or normed ahead of them", "some")
        if any(each.dims != 2 or each.norm or each.glu or each.depthwise for each in self.convolutions):
            raise Refused("convolutions", "plain ones over rows and columns (dims = 2)", "others")
        if self.merge % self.merge_rows:
            raise Refused("merge_rows", f"a divisor of merge = {self.merge}", self.merge_rows)
        return self

    def group(self, outer: str) -> str:
        """Its own name, with its tower's before it."""
        return f"{outer}_{self.name}" if outer else self.name
