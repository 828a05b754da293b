"""Fronts: what turns an input into the first vectors of a stack."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.byte_patches import Hashes
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm
from calc.spec.page import Boxes, Picture
from calc.spec.positions import Sinusoid


class Markers(Node):
    """Rows of a table of their own for tokens that stand for pictures or sounds, normed, projected to d_model and
    normed again without a weight, in place of the main table's vectors (Gemma 3n). Every token passes them: the others
    take the last row, whose result is not read. What a tower gives passes a norm of its own, and the same matrix.

    first: number of the first such token. end: of the first one behind them; None: all from the first one on.
    n_vectors: how many tokens' places each picture or sound takes; None: none is read, nor that norm of its own.
    filler: of sounds, the row whose vector stands where a tower gives fewer; None: the table has no such row, and no
    sound is read.
    """

    symbols: ClassVar[dict[str, str]] = {"n_rows": "n_markers", "width": "d_marker"}
    name: Literal["pictures", "sounds"]
    n_rows: Dim
    width: Dim
    norm: Norm = Norm()
    first: int = Field(ge=0)
    end: int | None = Field(default=None, ge=0)
    n_vectors: Dim | None = None
    filler: int | None = Field(default=None, ge=0)

    def group(self, outer: str) -> str:
        """Its own name, which tells its sizes from others'."""
        return f"{outer}_{self.name}" if outer else self.name


class Embedding(Node):
    """Token embedding and what is added to it.

    d_embed: width of the table, projected to d_model by a matrix where it differs; None means d_model (OPT-350m: 512).
    project: what is projected, the tokens alone (OPT) or their sum with positions after its norm (ALBERT, ELECTRA).
    n_positions, trained_positions: rows of a position table, None where there is none, and whether it is learned; one
        that is not holds sinusoids. sinusoidal: fixed positions are added. sinusoid: their order, see `Sinusoid`.
    n_token_types: rows of a segment table (BERT). norm: on the embedded tokens (BLOOM, BERT). norm_of: what is normed,
        the sum of tokens and what is added to them, or the tokens alone before it (Blenderbot-small's decoder).
    shared: the tokens are looked up in the main stack's table (T5's encoder).
    scale: what the looked-up vectors are multiplied with (Gemma: sqrt(d_model)). position_offset: rows of the position
        table before the first position's (OPT: 2), or the number of the first of the fixed positions.
    multiple: the tokens of a text are filled up to a multiple of it, and what fills them passes the layers and is cut
        off behind them (LED); None: they are as many as they are. beyond: texts of at most so many are not (BigBird).
    boxes: where each token stands on its page is added. picture: of the page, behind each text, where pictures are
        read, one for each: with the normed sum of the text's vectors, those of its patches pass a second norm
        (LayoutLMv3).
    n_angles, d_angles: rows and width of a table of sines and cosines that is held untrained, and from which rotary
        positions take their angles; None: they are computed (RoFormer).
    weighed: what is looked up plus a learned vector, times another (ZAYA1).
    wide: the stream of the layers is in fp32 whatever the model is in, and norms read it in the model's format (ZAYA1).
    own_token: the number of a token that has a learned vector of its own in place of the table's, which scale leaves as
        it is (T5Gemma 2's end of a picture); beside `shared` it is the main stack's too.
    hashes: as it says there (BLT). markers: as it says there, one after the other.
    """

    symbols: ClassVar[dict[str, str]] = {"multiple": "fill_multiple"}
    kind: Literal["tokens"] = "tokens"
    d_embed: Dim | None = None
    project: Literal["tokens", "sum"] = "tokens"
    project_bias: bool = False
    n_positions: Dim | None = None
    trained_positions: bool = True
    n_token_types: Dim | None = None
    sinusoidal: bool = False
    sinusoid: Sinusoid = "alternating"
    norm: Norm | None = None
    norm_of: Literal["sum", "tokens"] = "sum"
    shared: bool = False
    scale: float = 1.0
    position_offset: int = 0
    multiple: Dim | None = None
    beyond: int | None = Field(default=None, gt=0)
    n_angles: Dim | None = None
    d_angles: Dim | None = None
    boxes: Boxes | None = None
    picture: Picture | None = None
    own_token: int | None = Field(default=None, ge=0)
    weighed: bool = False
    hashes: Hashes | None = None
    wide: bool = False
    markers: tuple[Markers, ...] = ()

    @model_validator(mode="after")
    def _marked(self) -> Self:
        if self.markers and (self.d_embed is not None or self.shared or self.n_positions is not None):
            raise Refused("markers", "none, but beside a table of the model's width with nothing added", "some")
        if len({each.name for each in self.markers}) != len(self.markers):
            raise Refused("markers", "each for tokens of its own", ", ".join(each.name for each in self.markers))
        return self

    @model_validator(mode="after")
    def _whole_pages(self) -> Self:
        if self.picture is not None and (self.norm is None or self.norm_of != "sum" or self.d_embed is not None):
            raise Refused("picture", "none, but behind a normed sum of the model's width", "a picture")
        if self.picture is not None and self.multiple is not None:
            raise Refused("multiple", "null beside pictures of pages", self.multiple)
        if self.beyond is not None and self.multiple is None:
            raise Refused("beyond", "null where texts are not filled up", self.beyond)
        if self.boxes is not None and self.d_embed is not None:
            raise Refused("boxes", "none where tokens have a width of their own", "boxes")
        return self
