"""Sound in, vectors out: the convolutions ahead of a speech model's layers."""

from __future__ import annotations

from calc.blocks.embedding import positioned
from calc.blocks.front_output import FrontOutput
from calc.errors import Refused
from calc.sizes import Size, exact_div, is_exactly
from calc.spec import Convolution, Frames, Norm, PositionConvolution, Quantizer
from calc.spec.load import Load
from calc.trace.op import Moves
from calc.trace.primitives.convolution import steps
from calc.trace.primitives.cumulative_norm import cumulative_norm
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

AFFINE = Norm(kind="layernorm", bias=True)


def frames(t: Trace, spec: Frames, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Frames [batch, n_frames, d_frame] -> [batch * steps, d_model].

    Each convolution leaves floor((n + 2 * padding - kernel) / stride) + 1 of n steps, and as many of the frame's values
    where it runs over them too; what is left of those lies side by side in one vector. Sound needs no gradient.
    """
    x, length = _convolved(t, spec, load)
    if spec.before is not None:
        x = t.norm("before", spec.before, x)
    if spec.quantizer is not None:
        _targets(t, spec.quantizer, x)
    if spec.project:
        x = t.linear("project_in", x, d_model, bias=spec.project_bias, inside=False)
    if spec.mask_vector:
        t.parameters("mask", (t.weight("mask.weight", d_model, of="embedding"),), 1, d_model)
    if spec.scale != 1.0:
        x = t.scaled("scale", x)
    if spec.n_positions is not None:
        x = positioned(t, spec.n_positions, x, length, trained=spec.trained_positions)
    if spec.sinusoidal:
        x = t.add("sinusoids", x, of="positional")
    if spec.position_convolution is not None:
        x = _positions(t, spec.position_convolution, x, load.batch, length)
    if spec.norm is not None:
        x = t.norm("norm", spec.norm, x)
    return FrontOutput(x, length)


def _convolved(t: Trace, spec: Frames, load: Load) -> tuple[Tensor, Size]:
    """What all convolutions leave, a vector a step, and the steps of a sequence."""
    own = load.seq if spec.n_frames is None else spec.n_frames
    length: Size = own if load.source is None else load.source
    batch, pieces = load.batch, 1
    if spec.piece is not None:
        pieces = _pieces(length, spec.piece)
        batch, length = batch * pieces, spec.piece
    values: Size = spec.d_frame if spec.over_values else 1
    planes: Size = 1 if spec.over_values else spec.d_frame
    x = t.constant(batch * length * values, planes, split="stream")
    for i, each in enumerate(spec.convolutions):
        if each.dims == 1 and i and spec.convolutions[i - 1].dims == 2:
            x, values = t.joined(x, rows=batch * length, width=x.width * values), 1
        before = length, values
        length = steps(length + each.zeros, each.kernel, each.stride, 0)
        if each.across is not None:
            values = steps(values, each.across.kernel, each.across.stride, each.across.padding)
        elif each.dims == 2:
            values = steps(values, each.kernel, each.stride, each.padding)
        with t.part(each.name, x, of="other") as out:
            if each.behind:
                x = _padded(t, each, x, batch, *before)
            x = convolved(t, each, x, batch, length * values, batch * length)
            out.append(x)
    if spec.convolutions and spec.convolutions[-1].dims == 2:
        one = is_exactly(x.width, 1)
        rows, width = batch * length, x.width * values
        x = x.view(rows, width) if one else t.joined(x, rows=rows, width=width)
    return x, length * pieces


def _padded(t: Trace, spec: Convolution, x: Tensor, batch: Size, length: Size, values: Size) -> Tensor:
    """A copy of x with zeros behind time, and on either side of a frame's values."""
    values = values if spec.across is None else values + 2 * spec.across.padding
    return t.joined(x, rows=batch * (length + spec.zeros) * values, width=x.width)


def _pieces(length: Size, piece: int) -> Size:
    """How many there are of so many frames. Errors: Refused where a shorter one is left."""
    if isinstance(length, int) and length % piece:
        raise Refused("source_seq", f"whole pieces of {piece} frames", length)
    return exact_div(length, piece)


def convolved(t: Trace, spec: Convolution, x: Tensor, batch: Size, places: Size, steps_left: Size = 0) -> Tensor:
    """A convolution, its norm and its activation; places: of one sequence's result; steps_left: of all sequences'."""
    groups = x.width if spec.depthwise else 1
    x = t.convolution("conv", x, spec.n_channels, spec.kernels, batch * places, groups=groups, bias=spec.bias)
    if spec.norm == "batch":
        x = t.batch_norm("norm", x)
    elif spec.norm == "cumulative":
        x = cumulative_norm(t, "norm", x, steps_left)
    elif spec.norm is not None:
        x = t.norm("norm", AFFINE, x, vectors=batch * (spec.n_channels if spec.norm == "channel" else places))
    if spec.glu:
        return t.glu("activation", x)
    return x if spec.activation is None else t.activation("activation", spec.activation, x)


def _positions(t: Trace, spec: PositionConvolution, x: Tensor, batch: Size, length: Size) -> Tensor:
    """x plus what a convolution of it tells of places.

    Its weight is made of directions and, for each step of the kernel, a length. It runs over one step more than it
    keeps where its kernel is even; that one is cut off a view.
    """
    kernel = (spec.kernel,)
    with t.part("position_convolution", x, of="other") as out:
        if not spec.runs:
            # The weights are there, and nothing reads them.
            shapes = {"scale": kernel, "conv.weight": (x.width, exact_div(x.width, spec.n_groups), *kernel)}
            weights = tuple(t.weight(key, *shape) for key, shape in (shapes | {"conv.bias": (x.width,)}).items())
            t.parameters("unused", weights, 0, x.width)
            return x
        _lengths(t, spec, x.width)
        places = batch * steps(length, spec.kernel, 1, spec.kernel // 2)
        y = t.convolution("conv", x, x.width, kernel, places, groups=spec.n_groups, computed=True)
        y = t.activation("activation", "gelu", y.view(x.rows, x.width))
        x = t.add("add", x, y)
        out.append(x)
    return x


def _lengths(t: Trace, spec: PositionConvolution, d_model: Size) -> None:
    """The directions, which the convolution counts as its weight, brought to their lengths."""
    weight = t.weight("scale", spec.kernel)
    made = t.made(d_model, exact_div(d_model, spec.n_groups) * spec.kernel, weights=(weight,))

    def keeps(tape: Tape) -> Storage:
        for role in ("lengths", "factors") if weight.trainable else ():
            tape.keep(Storage(spec.kernel, tape.settings.stream, False, "none"), role)
        return Storage(made.elements, tape.settings.stream, weight.trainable, "none")

    one = made.elements
    t.op("scale", "elementwise", "l2norm", (), (made,), weights=(weight,), moves=lambda: Moves(one, one), keeps=keeps)


def _targets(t: Trace, spec: Quantizer, x: Tensor) -> None:
    """Scores of every entry of every codebook, the chosen ones, and their projection. Choosing multiplies nothing.

    A softmax over the entries of each codebook, hard going forward and soft going back (Jang et al. 2017,
    arXiv:1611.01144): which are chosen is kept as a number for each.
    """
    width = exact_div(spec.d_code, spec.n_codebooks)
    with t.part("quantizer", x, of="other") as out:
        scores = t.linear("scores", x, spec.n_codebooks * spec.n_entries, bias=True, inside=False)
        book = t.weight("codevectors", spec.n_codebooks * spec.n_entries, width)
        chosen = t.made(x.rows, spec.d_code, scores, weights=(book,))

        def keeps(tape: Tape, read: Storage) -> Storage:
            soft = tape.reads_result(read, "fp32" if tape.settings.autocast_on_gpu else None)
            hard = tape.like(soft)
            if book.trainable:
                tape.keep(hard, "chosen entries")
            return Storage(chosen.elements, tape.settings.stream, hard.grad or book.trainable)

        moves = Moves(0, chosen.elements, weight_reads=chosen.elements)
        t.op("choose", "gather", "gather", (scores,), (chosen,), weights=(book,), moves=lambda: moves, keeps=keeps)
        out.append(t.linear("project", chosen, spec.d_target, bias=True, inside=False))
