"""Pages of a document: where their tokens stand, and attention that knows how far apart."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.patches import Patches
from calc.spec.positions import Buckets


class Boxes(Node):
    """The box around each token, told by six vectors side by side, d_model wide together: its left, upper, right and
    lower end, its height and its width (LayoutLMv2: Xu et al. 2021, arXiv:2012.14740, section 3.1).

    n_places: rows of each of the four tables: across, down, heights and widths. d_place, d_extent: their widths.
    """

    symbols: ClassVar[dict[str, str]] = {"n_places": "n_box_places"}
    n_places: Dim
    d_place: Dim
    d_extent: Dim


class Picture(Patches):
    """The picture of a page, whose vectors stand behind the tokens of its text."""

    def group(self, outer: str) -> str:
        """Its sizes are told from those of the text."""
        return "picture"


class BoxBuckets(Node):
    """As Buckets, of how far boxes stand apart in one direction."""

    symbols: ClassVar[dict[str, str]] = {"n_buckets": "n_box_buckets"}
    n_buckets: Dim = 64
    max_distance: int = Field(default=256, gt=0, le=2**31)


class PageAttention(Node):
    """Numbers for buckets of distances along the text, and of boxes across and down, are added to the scores; they are
    held like parameters and never trained (LayoutLMv3: Huang et al. 2022, arXiv:2204.08387).

    All vectors see one another, and every projection has a bias. Scores are scaled down, their largest taken off and
    scaled up again before the softmax (Ding et al. 2021, arXiv:2105.13290, section 2.4).
    buckets: of distances along the text, None where none are added; box_buckets: of boxes, across and down alike.
    """

    kind: Literal["page_attention"] = "page_attention"
    n_heads: Dim
    d_head: Dim
    buckets: Buckets | None = Buckets()
    box_buckets: BoxBuckets | None = None

    @property
    def causal(self) -> bool:
        """Tokens see those to come."""
        return False

    @model_validator(mode="after")
    def _beside_the_text(self) -> Self:
        if self.buckets is None and self.box_buckets is not None:
            raise Refused("box_buckets", "null without buckets of distances along the text", "some")
        return self
