"""MobileNet-v5, which sees for a language model: weights that stand beside passes of text."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from calc.sizes import Size
from calc.spec.fields import Node

Named = tuple[str, tuple[Size, ...]]
"""Path and shape of a weight."""
_OF_PAIRS = 2
"""How many times as wide the block behind each attention is inside."""


def _convolved(path: str, d_out: int, d_in: int, kernel: int) -> Iterator[Named]:
    """A kernel over both axes without a bias, and a norm that has a weight alone."""
    yield f"{path}.conv.weight", (d_out, d_in, kernel, kernel)
    yield f"{path}.bn.weight", (d_out,)


def _inverted(path: str, d_in: int, d_out: int, start: int, middle: int, expansion: int) -> Iterator[Named]:
    """Universal inverted bottleneck (Qin et al. 2024, arXiv:2404.10518, section 3). start, middle: kernels of each
    channel's own, 0 for none."""
    if start:
        yield from _convolved(f"{path}.dw_start", d_in, 1, start)
    yield from _convolved(f"{path}.pw_exp", expansion * d_in, d_in, 1)
    if middle:
        yield from _convolved(f"{path}.dw_mid", expansion * d_in, 1, middle)
    yield from _convolved(f"{path}.pw_proj", d_out, expansion * d_in, 1)


class MobileStage(Node):
    """Blocks of one width, the first of which halves the picture's sides. edges: kernel and expansion of each block
    that widens by a kernel of all channels; inverted: kernels ahead of the expansion and behind it, and the expansion;
    pairs: of attention whose heads share keys and values, which a kernel of `narrowing` makes fewer (0: none does), and
    of an inverted block."""

    n_channels: int = Field(gt=0, le=2**31)
    edges: tuple[tuple[int, int], ...] = ()
    inverted: tuple[tuple[int, int, int], ...] = ()
    pairs: int = Field(default=0, ge=0, le=10**4)
    n_heads: int = Field(default=1, gt=0, le=2**31)
    d_head: int = Field(default=1, gt=0, le=2**31)
    narrowing: int = Field(default=0, ge=0, le=10**4)

    def weights(self, path: str, d_in: int) -> Iterator[Named]:
        width, at = self.n_channels, 0
        for kernel, expansion in self.edges:
            yield f"{path}.{at}.conv_exp.weight", (expansion * d_in, d_in, kernel, kernel)
            yield f"{path}.{at}.bn1.weight", (expansion * d_in,)
            yield f"{path}.{at}.conv_pwl.weight", (width, expansion * d_in, 1, 1)
            yield f"{path}.{at}.bn2.weight", (width,)
            d_in, at = width, at + 1
        for block in self.inverted:
            yield from _inverted(f"{path}.{at}", d_in, width, *block)
            yield f"{path}.{at}.layer_scale.gamma", (width,)
            d_in, at = width, at + 1
        for pair in range(self.pairs):
            yield from self._attention(f"{path}.{at + 2 * pair}")
            yield from _inverted(f"{path}.{at + 2 * pair + 1}", width, width, 0, 0, _OF_PAIRS)
            yield f"{path}.{at + 2 * pair + 1}.layer_scale.gamma", (width,)

    def _attention(self, path: str) -> Iterator[Named]:
        width, inner = self.n_channels, self.n_heads * self.d_head
        yield f"{path}.norm.weight", (width,)
        yield f"{path}.attn.query.proj.weight", (inner, width, 1, 1)
        for name in ("key", "value"):
            if self.narrowing:
                yield f"{path}.attn.{name}.down_conv.weight", (width, 1, self.narrowing, self.narrowing)
                yield f"{path}.attn.{name}.norm.weight", (width,)
            yield f"{path}.attn.{name}.proj.weight", (self.d_head, width, 1, 1)
        yield f"{path}.attn.output.proj.weight", (width, inner, 1, 1)
        yield f"{path}.layer_scale.gamma", (width,)


class MobileNet(Node):
    """A stem, stages, and an adapter that fuses the last two stages' results (MobileNet-v5: timm 1.0.31,
    timm/models/mobilenetv5.py). Its weights are counted, and no pass runs them, nor is any trained: pictures are not
    described."""

    stem: int = Field(gt=0, le=2**31)
    stages: tuple[MobileStage, ...] = Field(min_length=2, max_length=30)
    d_out: int = Field(gt=0, le=2**31)
    expansion: int = Field(gt=0, le=10**4)

    def weights(self) -> Iterator[Named]:
        """Path and shape of each, as timm names them."""
        yield "conv_stem.conv.weight", (self.stem, 3, 3, 3)
        yield "conv_stem.conv.bias", (self.stem,)
        yield "conv_stem.bn.weight", (self.stem,)
        width = self.stem
        for i, stage in enumerate(self.stages):
            yield from stage.weights(f"blocks.{i}", width)
            width = stage.n_channels
        fused = sum(stage.n_channels for stage in self.stages[-2:])
        yield from _inverted("msfa.ffn", fused, self.d_out, 0, 0, self.expansion)
        yield "msfa.norm.weight", (self.d_out,)
