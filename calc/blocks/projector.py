"""The projector behind a vision tower."""

from __future__ import annotations

from calc.blocks.frames import convolved
from calc.blocks.mlp import mlp
from calc.errors import Refused
from calc.sizes import Size, exact_div, is_exactly
from calc.spec import Projector
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Moves
from calc.trace.primitives.convolution import steps
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def projector(
    t: Trace, spec: Projector, x: Tensor, d_reader: Size, load: Load, grid: tuple[Size, Size] | None = None
) -> Tensor:
    """[batch * seq, d_model], without `skip` of each sequence -> [batch * (seq - skip) / merge, d_reader].

    FLOPs 2 * vectors * d_in * d_out a dense layer; the mean as a product takes 2 * batch * (seq - skip) *
    ((seq - skip) / merge) * d_model more, and of its operands only the vectors need a gradient.
    grid: rows and columns of the patches, where the tower reads some. Convolutions leave fewer.
    Errors: Refused for a picture whose vectors cannot be joined without a rest.
    """
    read = load.seq - spec.skip
    _whole_groups(spec, read, grid)
    n = len(spec.depths)
    name = f"{spec.name}.{{}}" if n else spec.name
    with t.part(name, x, of="other", calls=n or 1, copies=n or 1) as out:
        y = x.view(load.batch * read, x.width)
        if spec.convolutions:
            y, read = _convolved(t, spec, y, load.batch, grid)
        if spec.merge_rows > 1 or (spec.skip and not is_exactly(load.batch, 1)):
            # Laid in the order of the blocks that are joined, or without what stands between pictures; no kernel is
            # counted for it.
            y = t.joined(y, rows=y.rows, width=y.width)
        if spec.before is not None:
            y = t.norm("before", spec.before, y)
        y = _joined(t, spec, y, load.batch, read)
        if spec.scale != 1.0:
            y = t.scaled("scale", y)
        if spec.standardized:
            y = t.buffered("standardize", y, numbers=y.width)
        if spec.norm is not None:
            y = t.norm("norm", spec.norm, y)
        for i, layer in enumerate(spec.layers):
            if i and layer.gated:
                half = exact_div(y.width, 2)
                value, gate = y.columns(half), y.columns(half)
                y = t.gated_activation(f"activation_{i}", spec.activation, gate, value, apart=False)
            elif i and layer.activated:
                y = t.activation(f"activation_{i}", spec.activation, y)
            d_out = d_reader if i == len(spec.layers) - 1 else y.width if layer.d_out is None else layer.d_out
            y = t.linear(layer.name, y, d_out, bias=layer.bias, inside=False)
        if spec.after is not None and spec.channel is not None:
            y = t.activation("activation_after", spec.activation, t.norm("after", spec.after, y))
            with t.part("mlp", y, of="mlp") as made:
                y = mlp(t, spec.channel, y)
                made.append(y)
        if spec.newline:
            t.parameters("newline", (t.weight("newline.weight", d_reader),), 0, d_reader)
        if spec.n_unread_marks:
            t.parameters("unread_marks", (t.weight("unread_marks.weight", spec.n_unread_marks, d_reader),), 0, d_reader)
        out.append(y)
    return y


def _convolved(
    t: Trace, spec: Projector, x: Tensor, batch: Size, grid: tuple[Size, Size] | None
) -> tuple[Tensor, Size]:
    """What the convolutions leave, and how many vectors of one picture. Errors: Refused where there is no picture."""
    if grid is None:
        raise Refused("convolutions", "none, but behind a tower that reads patches of pictures", "some")
    rows, columns = grid
    for each in spec.convolutions:
        rows, columns = (steps(n, each.kernel, each.stride, each.padding) for n in (rows, columns))
        with t.part(each.name, x, of="other") as out:
            x = convolved(t, each, x, batch, rows * columns)
            out.append(x)
    return x, rows * columns


def _whole_groups(spec: Projector, read: Size, grid: tuple[Size, Size] | None) -> None:
    """Refuse a picture that blocks of patches do not cover without a rest."""
    if isinstance(read, int) and read % spec.merge:
        raise Refused("image", f"a picture whose patches make whole groups of {spec.merge}", f"{read} patches")
    for patches, block in zip(grid or (), (spec.merge_rows, spec.merge // spec.merge_rows), strict=False):
        if isinstance(patches, int) and patches % block:
            expected = f"a picture of whole blocks of {spec.merge_rows} x {spec.merge // spec.merge_rows} patches"
            raise Refused("image", expected, f"{patches} patches along a side")


def _joined(t: Trace, spec: Projector, x: Tensor, batch: Size, read: Size) -> Tensor:
    """Every `merge` neighbours as one vector: side by side, which is a view, or their mean."""
    given = exact_div(read, spec.merge)
    if spec.join == "concat":
        return x.view(batch * given, spec.merge * x.width)
    if spec.join == "mean":
        return x if spec.merge == 1 else t.pooled("pool", x, batch * given, "mean")
    y = t.made(batch * given, x.width, x)

    def keeps(tape: Tape, vectors: Storage) -> Storage:
        """A matrix of ones and zeros, the same for all pictures, until autocast copies it."""
        copies = batch if tape.settings.autocast else 1
        return tape.product(Storage(copies * given * read, vectors.dtype, False, "none"), vectors, y.elements, "stream")

    t.op(
        "pool",
        "linear",
        "batched_matmul",
        (x,),
        (y,),
        flops=2 * batch * read * given * x.width,
        shape=Matmul(given, x.width, read, batch, weighed=False),
        moves=lambda: Moves(batch * given * read + x.elements, y.elements),
        keeps=keeps,
    )
    return y
