"""MobileNet-v5, which sees for a language model."""

from __future__ import annotations

from pydantic import Field

from calc.spec.fields import Node


class MobileStage(Node):
    """Blocks of one width, the first of which halves the picture's sides. edges: kernel and expansion of each block
    that widens by a kernel of all channels; inverted: kernels ahead of the expansion and behind it, and the expansion
    (universal inverted bottleneck: Qin et al. 2024, arXiv:2404.10518, section 3); pairs: of attention whose heads share
    keys and values, which a kernel of `narrowing` makes fewer (0: none does), and of an inverted block twice as wide
    inside."""

    n_channels: int = Field(gt=0, le=2**31)
    edges: tuple[tuple[int, int], ...] = ()
    inverted: tuple[tuple[int, int, int], ...] = ()
    pairs: int = Field(default=0, ge=0, le=10**4)
    n_heads: int = Field(default=1, gt=0, le=2**31)
    d_head: int = Field(default=1, gt=0, le=2**31)
    narrowing: int = Field(default=0, ge=0, le=10**4)


class MobileNet(Node):
    """A stem that halves a picture's sides, stages, and an adapter that fuses the last two stages' results and averages
    them to `left` rows and columns (MobileNet-v5: timm 1.0.31, timm/models/mobilenetv5.py).

    side: of a picture, in pixels, where none is asked for. stem: its channels. d_out, expansion: of the adapter.
    """

    side: int = Field(gt=0, le=2**16)
    stem: int = Field(gt=0, le=2**31)
    stages: tuple[MobileStage, ...] = Field(min_length=2, max_length=30)
    d_out: int = Field(gt=0, le=2**31)
    expansion: int = Field(gt=0, le=10**4)
    left: int = Field(gt=0, le=2**16)

    @property
    def whole(self) -> int:
        """Of how many pixels a side must be a multiple, so that all halves and the mean are of whole vectors."""
        return self.left * 2 ** len(self.stages)
