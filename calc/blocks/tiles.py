"""Pictures in tiles: vectors of patches and places, and what stands between two stages of layers and behind them.

Source: transformers 5.23, models/mllama/modeling_mllama.py.
"""

from __future__ import annotations

from calc.blocks.front_output import FrontOutput
from calc.blocks.patches import patches_along
from calc.errors import Refused
from calc.sizes import Size, ceil_div, is_exactly
from calc.spec import Stack, Stages, Tiles
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Keeps, Moves, Weight
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def tiles(t: Trace, spec: Tiles, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Pictures [batch, n_tiles, channels, height, width] -> [batch * n_tiles * filled, d_model].

    FLOPs 2 * batch * n_tiles * patches * d_model * channels * patch_height * patch_width, and 2 * batch * length^2 of
    the product that makes the mask [batch, length, length]. Errors: Refused for tiles of another size, and for other
    pictures than one for each sequence.
    """
    if not is_exactly(load.images, 0):
        raise Refused("images", "0, beside the one picture that each sequence has", load.images)
    if load.image is not None:
        raise Refused("image", "none: a tile has the size that the model is made for", "one")
    of_all = load.batch * spec.n_tiles
    seen = places(spec)
    pixels = t.constant(of_all * spec.height * spec.width, spec.channels)
    kernel = (spec.patch_height, spec.patch_width)
    x = t.patch("patch", pixels, d_model, kernel, of_all * (seen - 1), bias=False)
    x = tile_vectors(t, spec, x, load)
    special = t.weight("special.weight", 1, d_model, of="embedding")
    x = t.concat("concat", x, t.parameters("special", (special,), of_all, d_model))
    x = _placed(t, spec, x)
    x = t.norm("norm", spec.norm, x)
    length = spec.n_tiles * filled(spec)
    _mask(t, load.batch, length)
    return FrontOutput(_filled(t, x, load.batch * length), length)


def places(spec: Tiles) -> Size:
    """Vectors of one tile: its patches and the one before them."""
    rows, columns = (
        patches_along(pixels, patch, None)
        for pixels, patch in ((spec.height, spec.patch_height), (spec.width, spec.patch_width))
    )
    return rows * columns + 1


def filled(spec: Tiles) -> Size:
    """The same with what fills them up."""
    return spec.whole * ceil_div(places(spec), spec.whole)


def tile_vectors(t: Trace, spec: Tiles, x: Tensor, load: Load, *, again: bool = False) -> Tensor:
    """x with a gated vector of each tile. again: which shapes pictures have is kept by who looked them up before."""
    table = t.weight("tile.weight", spec.n_shapes, spec.n_tiles * x.width, of="positional")
    found = t.made(load.batch * spec.n_tiles, x.width, weights=(table,))

    def keeps(tape: Tape) -> Storage:
        if table.trainable and not again:
            tape.keep(Storage(load.batch, "int64", False, "none"), "shapes of pictures")
        return Storage(found.elements, tape.settings.stream, table.trainable)

    _gather(t, "tile", found, keeps, weights=(table,))
    return t.add("tile_add", x, t.opened("tile_gate", found, of="positional"), of="positional")


def between(t: Trace, spec: Stages, front: Tiles, x: Tensor, load: Load) -> Tensor:
    """What the second stage of layers reads of the first one's result."""
    with t.part("between", x, of="other") as out:
        x = tile_vectors(t, front, t.norm("norm", spec.norm, x), load, again=True)
        out.append(x)
    return x


def side_by_side(t: Trace, spec: Stages, front: Tiles, x: Tensor, load: Load) -> tuple[Tensor, Size]:
    """The last layer's result x and those of other layers, [batch * length, (1 + beside) * d_model], and the length
    of what is left when nothing fills tiles up."""
    length = front.n_tiles * places(front)
    others = t.joined(x, rows=x.rows, width=len(spec.beside) * x.width)
    return t.joined(x, others, rows=load.batch * length, width=x.width + others.width), length


def held(front: Tiles, spec: Stack, x: Tensor, load: Load) -> tuple[Size, Size]:
    """Numbers that are live while layers run, whose first ones read x. By names: what each of them gives, but for what
    the last one reads and one more for which x is counted, pixels, and vectors of patches; by what is read behind them:
    the results that stand beside the last one's."""
    of_all = load.batch * front.n_tiles
    pixels = of_all * front.height * front.width * front.channels
    named = (spec.n_layers - 2) * x.elements + pixels + of_all * (places(front) - 1) * x.width
    return named, 0 if spec.stages is None else len(spec.stages.beside) * x.elements


def _placed(t: Trace, spec: Tiles, x: Tensor) -> Tensor:
    """x + (1 - tanh(gate)) * vectors of places in a tile + tanh(gate) * those of places in all tiles."""
    seen = places(spec)
    gate = t.weight("place_gate.weight", 1, of="positional")
    in_tile = t.weight("position.weight", seen, x.width, of="positional")
    in_all = t.weight("place.weight", spec.n_shapes, spec.n_tiles * seen * x.width, of="positional")
    found = t.made(x.rows, x.width, weights=(in_all,))
    _gather(t, "place", found, lambda tape: Storage(found.elements, tape.settings.stream, in_all.trainable), (in_all,))
    y = t.made(x.rows, x.width, x, found, weights=(gate, in_tile))

    def keeps(tape: Tape, read: Storage, of_all: Storage) -> Storage:
        """The gate's tanh is computed for each of the two."""
        closed, opened = (tape.reads_result(Storage(1, tape.settings.stream, gate.trainable, "none")) for _ in range(2))
        table = Storage(in_tile.elements, tape.settings.stream, in_tile.trainable, parameter=True)
        read = tape.like(read, tape.times(table, tape.like(closed)))
        return tape.like(read, tape.times(of_all, opened))

    t.op("position_add", "elementwise", "add", (x, found), (y,), weights=(gate, in_tile), of="positional", keeps=keeps)
    return y


def _gather(t: Trace, name: str, found: Tensor, keeps: Keeps, weights: tuple[Weight, ...]) -> None:
    """A row of a table for each picture, read in pieces."""
    t.op(
        name,
        "gather",
        "gather",
        (),
        (found,),
        weights=weights,
        of="positional",
        moves=lambda: Moves(0, found.elements, weight_reads=found.elements),
        keeps=keeps,
    )


def _filled(t: Trace, x: Tensor, rows: Size) -> Tensor:
    """x and zeros behind each tile, in a new tensor."""
    y = t.made(rows, x.width, x, split=x.split)
    t.op(
        "fill",
        "elementwise",
        "copy",
        (x,),
        (y,),
        of="other",
        keeps=lambda tape, read: Storage(y.elements, read.dtype, read.grad, read.split),
    )
    return y


def _mask(t: Trace, batch: Size, length: Size) -> None:
    """A product of what fills up with itself, laid down once for all layers."""
    fill = t.constant(batch * length, 1)
    shape, flops = Matmul(length, length, 1, batch, weighed=False), 2 * batch * length * length

    def keeps(tape: Tape, a: Storage, b: Storage) -> Storage:
        return Storage(batch * length * length, tape.settings.stream, False, "none")

    product(t, "mask", fill, fill, batch * length, length, shape, flops, split="none", of="other", keeps=keeps)
