"""A picture through a residual network to vectors, and the queries that a detector's decoder starts from."""

from __future__ import annotations

from dataclasses import dataclass

from calc.blocks.front_output import FrontOutput
from calc.sizes import Size, exact_div
from calc.spec import Queries, ResNet
from calc.spec.load import Load
from calc.trace.primitives.convolution import steps
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class _Picture:
    """How large a map is, and of how many pictures."""

    batch: Size
    height: Size
    width: Size

    def after(self, kernel: int, stride: int) -> _Picture:
        """Behind a convolution or pooling padded by half its kernel."""
        height, width = (steps(side, kernel, stride, kernel // 2) for side in (self.height, self.width))
        return _Picture(self.batch, height, width)

    @property
    def places(self) -> Size:
        return self.batch * self.height * self.width


def resnet(t: Trace, spec: ResNet, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Pictures [batch, channels, height, width] -> [batch * (height / 32 * width / 32), d_model] (halves rounded up).

    FLOPs 2 * places * channels in * channels out * kernel of each convolution. Stages ahead of `trained_from` are
    frozen, and nothing of them is passed back. Positions are added in every layer.
    """
    height, width = (spec.height, spec.width) if load.image is None else load.image
    picture = _Picture(load.batch, height, width)
    with t.part("backbone", of="other") as out:
        x, picture = _stem(t, spec, picture)
        for i, (depth, d_out) in enumerate(zip(spec.depths, spec.widths, strict=True)):
            stride = 2 if i or spec.halve_first_stage else 1
            with t.part(f"stages.{i}", x) as end:
                for j in range(depth):
                    step = stride if j == 0 else 1
                    x, picture = _layer(t, spec, f"layers.{j}", x, d_out, step, i >= spec.trained_from, picture)
                end.append(x)
        out.append(x)
    x = t.convolution("project_in", x, d_model, (1, 1), picture.places)
    return FrontOutput(x, picture.height * picture.width, _places(t, spec, x, picture))


def _stem(t: Trace, spec: ResNet, picture: _Picture) -> tuple[Tensor, _Picture]:
    """A convolution of 7 x 7 and a pooling of 3 x 3, which halve the picture twice."""
    x = t.constant(picture.places, spec.channels)
    picture = picture.after(7, 2)
    x = t.convolution("stem", x, spec.stem, (7, 7), picture.places, bias=False, trained=spec.trained_from < 0)
    x = t.frozen_batch_norm("stem_norm", x)
    x = t.activation("stem_activation", "relu", x)
    picture = picture.after(3, 2)
    return t.max_pooled("stem_pool", x, picture.places), picture


def _layer(
    t: Trace, spec: ResNet, name: str, x: Tensor, d_out: int, stride: int, trained: bool, picture: _Picture
) -> tuple[Tensor, _Picture]:
    """Two or three convolutions, and one on the shortcut where width or size change."""
    inner = d_out // 4 if spec.bottleneck else d_out
    shapes = [(inner, 3, stride), (d_out, 3, 1)]
    if spec.bottleneck:
        first, middle = (stride, 1) if spec.stride_first else (1, stride)
        shapes = [(inner, 1, first), (inner, 3, middle), (d_out, 1, 1)]
    with t.part(name, x) as out:
        y = x
        for i, (width, kernel, step) in enumerate(shapes):
            picture = picture.after(kernel, step)
            y = t.convolution(f"conv{i}", y, width, (kernel, kernel), picture.places, bias=False, trained=trained)
            y = t.frozen_batch_norm(f"norm{i}", y)
            if i < len(shapes) - 1:
                y = t.activation(f"activation{i}", "relu", y)
        if not (x.width == d_out and stride == 1):
            x = t.convolution("shortcut", x, d_out, (1, 1), picture.places, bias=False, trained=trained)
            x = t.frozen_batch_norm("shortcut_norm", x)
        y = t.activation("activation", "relu", t.add("add", y, x))
        out.append(y)
    return y, picture


def _places(t: Trace, spec: ResNet, x: Tensor, picture: _Picture) -> Tensor:
    """What tells the vectors of a map apart [rows * columns, d_model], in the number format of the map.

    Half of each vector tells the row and half the column: learned vectors, or sinusoids.
    """
    n = picture.height * picture.width
    if spec.axis_positions is None:
        found = t.constant(n, x.width)
    else:
        half = exact_div(x.width, 2)
        tables = tuple(
            t.weight(f"{axis}.weight", spec.axis_positions, half, of="positional") for axis in ("row", "column")
        )
        looked_up = picture.height + picture.width
        found = t.gather("position", tables, n, x.width, of="positional", indices=looked_up)
    places = Tensor(n, x.width, found.grad, "none")

    def keeps(tape: Tape, read: Storage, found: Storage) -> Storage:
        return Storage(places.elements, read.dtype, found.grad, "none")

    return t.silent("as_the_map", (x, found), places, keeps)


def queries(t: Trace, spec: Queries, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Zeros [batch * n_queries, d_model], whatever the length asked for, and the learned vectors that every layer adds
    to them (Carion et al. 2020, arXiv:2005.12872, section 3.2)."""
    table = t.weight("query.weight", spec.n_queries, d_model, of="embedding")
    learned = t.parameters("query", (table,), spec.n_queries, d_model)
    zeros = t.constant(load.batch * spec.n_queries, d_model, split="stream")
    return FrontOutput(zeros, spec.n_queries, learned)
