"""Pixels in, vectors out: patch embedding as a convolution whose kernel is one patch."""

from __future__ import annotations

from calc import checks
from calc.blocks.front_output import FrontOutput
from calc.errors import Refused
from calc.sizes import Size, ceil_div, floor_div, holds, is_symbolic
from calc.spec import Patches, WindowedPositions
from calc.spec.load import Load
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def patches(t: Trace, spec: Patches, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Pictures [batch, channels, height, width] -> [batch * (rows * columns + n_special + n_registers), d_model], or of
    the patches that are not masked.

    FLOPs 2 * batch * rows * columns * d_model * channels * frames * patch_height * patch_width; rows are
    floor((height + 2 * padding - patch_height) / stride_height) + 1, as in torch's Conv2d. Pixels need no gradient.
    Errors: Refused, where it is asked what autograd keeps, for another size of picture than positions are learned for.
    """
    rows, columns = grid(spec, load)
    height, width = (spec.height, spec.width) if load.image is None else load.image
    kernel = (spec.patch_height, spec.patch_width)
    if spec.filled:
        height, width = rows * spec.patch_height, columns * spec.patch_width
    pixels = t.constant(load.batch * height * width, spec.channels)
    if spec.frames > 1:
        kernel = (spec.frames, *kernel)
        # A still picture is laid in all of them, which copies nothing.
        pixels = pixels.view(pixels.rows * spec.frames, spec.channels)
    x = t.patch("patch", pixels, d_model, kernel, load.batch * rows * columns, bias=spec.bias)
    if spec.norm is not None and spec.norm_of == "patches":
        x = t.norm("norm", spec.norm, x)
    if spec.masked is not None:
        return _unmasked(t, spec, spec.masked, x, rows * columns, load)
    if spec.n_special:
        x = t.concat("concat", x, _special(t, spec, d_model, load.batch))
    if spec.mask_vector:
        t.parameters("mask", (t.weight("mask.weight", d_model, of="embedding"),), 0, d_model)
    if spec.n_positions is not None:
        x = t.add("position_add", x, _positions(t, spec, rows * columns, d_model, load), of="positional")
    if spec.windowed is not None:
        x = t.add("position_add", x, _windowed(t, spec.windowed, rows, columns, d_model), of="positional")
    if spec.n_registers:
        vectors = t.weight("registers.weight", spec.n_registers, d_model, of="embedding")
        registers = t.parameters("registers", (vectors,), load.batch * spec.n_registers, d_model)
        x = t.concat("registers_concat", x, registers)
    if spec.norm is not None and spec.norm_of == "sum":
        x = t.norm("norm", spec.norm, x)
    return FrontOutput(x, rows * columns + spec.n_special + spec.n_registers)


def _special(t: Trace, spec: Patches, d_model: Size, pictures: Size) -> Tensor:
    """The learned vectors of so many pictures."""
    vectors = t.weight("special.weight", spec.n_special, d_model, of="embedding")
    return t.parameters("special", (vectors,), pictures * spec.n_special, d_model)


def _unmasked(t: Trace, spec: Patches, masked: float, x: Tensor, n: Size, load: Load) -> FrontOutput:
    """Of n patches a picture, x, those that are seen, with their positions, behind the learned vectors, with theirs."""
    seen = checks.size("patches that are not masked", _share(n, 1 - masked))
    positions = _positions(t, spec, n, x.width, load)
    x = t.add("position_add", x, positions.view(n, x.width), of="positional")
    x = t.picked("pick", x, load.batch * seen)
    if spec.n_special:
        special = _special(t, spec, x.width, 1)
        special = t.add("special_add", special, positions.view(spec.n_special, x.width), of="positional")
        x = t.concat("concat", x, special.view(load.batch * spec.n_special, x.width))
    return FrontOutput(x, seen + spec.n_special)


def _share(n: Size, share: float) -> Size:
    """The whole part of n * share, rounded as a float is."""
    return int(n * share) if isinstance(n, int) else floor_div(n * share, 1)


def _positions(t: Trace, spec: Patches, n: Size, d_model: Size, load: Load) -> Tensor:
    """Learned vectors of the places of n patches and of the learned vectors beside them, from every table of them."""
    tables = () if spec.position_tables == 1 else (spec.position_tables,)
    shape = (*tables, spec.n_positions, d_model)
    of_places = t.weight("position.weight", *shape, of="positional", trainable=spec.trained_positions)
    found = t.parameters(
        "position", (of_places,), (n + spec.n_special) * spec.position_tables, d_model, of="positional"
    )
    return found if spec.position_tables > 1 else fitted(t, found, load)


def _windowed(t: Trace, spec: WindowedPositions, rows: Size, columns: Size, d_model: Size) -> Tensor:
    """[rows * columns, d_model]: what lies between learned vectors of a grid, and those of a place in its window.

    Errors: Refused for rows or columns that windows do not cover without a rest: transformers then has no positions.
    """
    for patches in (rows, columns):
        if not is_symbolic(patches) and not is_symbolic(spec.side) and holds(patches % spec.side > 0):
            raise Refused("image", f"whole windows of {spec.side} patches", f"{patches} patches along a side")
    n = rows * columns
    far = t.weight("position.weight", spec.rows * spec.columns, d_model, of="positional")
    near = t.weight("window.weight", spec.side**2, d_model, of="positional")
    found = [
        t.parameters(name, (weight,), n, d_model, of="positional")
        for name, weight in (("position", far), ("window", near))
    ]
    return t.add("window_add", *found, of="positional")


def fitted(t: Trace, found: Tensor, load: Load) -> Tensor:
    """Positions `found` as a picture of another size takes them, of which it is not known what autograd keeps."""
    if load.image is None:
        return found
    return t.silent("fitted", (found,), found.view(found.rows, found.width), _refuse_fitted)


def _refuse_fitted(tape: Tape, found: Storage) -> Storage:
    raise Refused("image", "the size that the model is made for, where activations are counted", "another")


def grid(spec: Patches, load: Load) -> tuple[Size, Size]:
    """Rows and columns of the patches of one picture."""
    height, width = (spec.height, spec.width) if load.image is None else load.image
    if spec.filled:
        return ceil_div(height, spec.patch_height), ceil_div(width, spec.patch_width)
    height, width = height + 2 * spec.padding, width + 2 * spec.padding
    rows = patches_along(height, spec.patch_height, spec.stride_height)
    return rows, patches_along(width, spec.patch_width, spec.stride_width)


def patches_along(pixels: Size, patch: Size, stride: Size | None) -> Size:
    """How many patches fit along one side. Errors: Refused where not one does."""
    fit = floor_div(pixels, patch) if stride is None else floor_div(pixels - patch, stride) + 1
    return checks.size("patches along a side of the image", fit)
