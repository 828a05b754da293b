"""What happens to scores on their way to weights, and what is live of them where nothing is kept for backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from calc.sizes import Size, is_exactly
from calc.spec import Buckets, Shaw
from calc.trace.footprint import Footprint
from calc.trace.functions import Attend
from calc.trace.op import Weight
from calc.trace.primitives.attend_saved import Square
from calc.trace.recorder import Recorder
from calc.trace.tensor import Kernel, Tensor


@dataclass(frozen=True, slots=True)
class Scoring:
    """What happens to scores on their way to weights.

    softmax: the number format it is computed in where it is written out: fp32, or the model's. causal: whether later
    tokens are hidden. wide_mask: whether `mask` is in the stream's format, so that autocast copies it for every layer.
    window: the length from which on others are hidden too; None: none are. mask: numbers of any
    other mask that a kernel is given; common_mask: whether all layers are given the same, beside
    which so many numbers are `held`, by names or by what reads them later. softcap, alibi: as in
    `calc.spec.Attention`. sinks: their weight.
    shaw: a vector for every distance is added to keys, and perhaps to values. buckets: a number for every head and
    distance is added to the scores; bias: where the table stands beside the layers, those numbers.
    own: numbers of all heads' pairs that the layer itself makes, a mask among them (Doge).
    distances: the projected sinusoids of all distances, against which queries are multiplied too (Transformer-XL);
    of_each: whether each sequence has its own (XLNet).
    of_distances: the projected vectors of distances that queries, and that keys, are multiplied with too (DeBERTa).
    by_head: queries lie head by head and not token by token. repeated: whether a kernel knows which heads share keys.
    apart: no kernel is asked, whatever it may know (blocks of a sequence). masked: a mask is given, whatever it hides.
    """

    softmax: Literal["fp32", "model"] = "fp32"
    causal: bool = False
    window: Size | None = None
    mask: Size = 0
    common_mask: bool = False
    wide_mask: bool = False
    held: tuple[Size, Size] = (0, 0)
    softcap: bool = False
    alibi: bool = False
    sinks: Weight | None = None
    shaw: Shaw | None = None
    buckets: Buckets | None = None
    bias: Tensor | None = None
    own: Tensor | None = None
    distances: Tensor | None = None
    of_each: bool = False
    of_distances: tuple[Tensor | None, Tensor | None] = (None, None)
    by_head: bool = False
    repeated: bool = True
    apart: bool = False
    masked: bool = False

    @property
    def kernel(self) -> Kernel | None:
        """The execution from which on one kernel runs all of it: PyTorch's own knows plain scores, those that engines
        and compilers bring caps and sinks too, and none vectors of distances."""
        of_distances = self.distances is not None or self.of_distances != (None, None)
        if self.shaw is not None or of_distances or self.apart:
            return None
        return "sdpa" if self.repeated and not self.softcap and self.sinks is None else "compiled"


PLAIN = Scoring()


@dataclass(frozen=True, slots=True)
class Core:
    """One attention: its products, its sizes as they are told apart, and what becomes of its scores."""

    shape: Attend
    square: Square
    scoring: Scoring

    def made(self, t: Recorder, *sources: Tensor, weights: tuple[Weight, ...] = ()) -> Tensor:
        """A number for each query and key of all heads."""
        shape = self.shape
        x = t.made(shape.groups * shape.heads * shape.queries, shape.keys, *sources, weights=weights, split="tensor")
        x.inside = self.scoring.kernel
        return x

    def mask(self, footprint: Footprint) -> Mapping[str, Size]:
        """Written out, a number for each query and key is added to the scores of all heads, one mask for all layers of
        a window."""
        shape, square = self.shape, self.square
        if self.scoring.common_mask:
            named, read = self.scoring.held
            mask, held = self.scoring.mask, read if footprint.compiled else named
            return {"mask of all layers": footprint.width * mask, "results of layers": footprint.width * held}
        if footprint.execution != "eager" or not shape.causal:
            return {}
        name = f"mask of {shape.window}{' in chunks' if shape.chunked else ''}"
        return {name: footprint.width * square.batch * square.seq * shape.keys}

    def repeated(self, footprint: Footprint) -> Size:
        """Written out, keys and values are repeated for every head that shares them."""
        shape, square = self.shape, self.square
        if square.kv_rows is square.rows or is_exactly(shape.heads, 1):
            return 0
        rows, width = shape.groups * shape.heads * shape.keys, shape.d_head + shape.d_value
        return footprint.of(Tensor(rows, width, split="tensor", inside=self.scoring.kernel))

    def softcap(self, footprint: Footprint) -> Size:
        """Scores before and after each step."""
        return self.repeated(footprint) + footprint.of(self._scores(wide=False))

    def softmax(self, footprint: Footprint) -> Size:
        """Computed in fp32 there are its results beside the weights, and on a CPU a copy of the scores instead of them;
        with sinks, the scores with one more column for each before that."""
        plain, wide = (footprint.of(self._scores(wide=wide)) for wide in (False, True))
        most = plain
        if self.scoring.softmax == "fp32" and footprint.width < 4:
            most = wide + (wide if footprint.device == "cpu" else plain)
        return self.repeated(footprint) + most + (0 if self.scoring.sinks is None else plain)

    def values(self, footprint: Footprint, out: Tensor) -> Size:
        """Written out, what comes head by head is copied token by token."""
        shape = self.shape
        apart = footprint.on_chip(self._scores(wide=False)) or is_exactly(shape.queries, 1)
        return self.repeated(footprint) + (1 if apart else 2) * footprint.of(out)

    def _scores(self, *, wide: bool) -> Tensor:
        shape = self.shape
        rows = shape.groups * shape.heads * shape.queries
        return Tensor(rows, shape.keys, split="tensor", inside=self.scoring.kernel, wide=wide)
