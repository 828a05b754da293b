"""Prompts of Segment Anything: points, where they are and of which kind, and a mask from before."""

from __future__ import annotations

from calc.sizes import Size, exact_div
from calc.spec import MaskDecoder
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def sinusoids(t: Trace, spec: MaskDecoder, name: str, n: Size, width: Size) -> Tensor:
    """[n, width]: sines and cosines of the products of n places [n, 2] with directions, 2 * n * width FLOPs.

    SAM 2 draws its directions once and never trains them.
    """
    half = exact_div(width, 2)
    shape, flops = Matmul(n, half, 2, weighed=not spec.maps), 2 * n * width
    if not spec.maps:
        return _trained_sinusoids(t, name, n, width, shape, flops)
    with t.without_gradient():
        at, directions = t.constant(n, 2), t.constant(2, half)
        angles = product(t, f"{name}_angles", at, directions, n, half, shape, flops, split="none")
        t.op(f"{name}_waves", "elementwise", "other", (angles,), (t.made(n, width, angles),))
    return t.constant(n, width)


def _trained_sinusoids(t: Trace, name: str, n: Size, width: Size, shape: Matmul, flops: Size) -> Tensor:
    """The same where directions are learned: places are kept, and the angles, for sines and cosines."""
    at, directions = t.constant(n, 2), t.weight("/mask_decoder.directions", 2, shape.n, of="positional")
    angles = t.made(n, shape.n, at, weights=(directions,), split="none")

    def products(tape: Tape, read: Storage) -> Storage:
        read = tape.cast(read, tape.settings.dtype) if tape.settings.autocast else read
        if directions.trainable:
            tape.keep(read, "places")
        return Storage(angles.elements, read.dtype, directions.trainable, "none")

    fields = {"flops": flops, "shape": shape, "keeps": products, "weights": (directions,), "of": "positional"}
    t.op(f"{name}_angles", "linear", "matmul", (at,), (angles,), **fields)
    waves = t.made(n, width, angles, split="none")

    def sines(tape: Tape, read: Storage) -> Storage:
        made = tape.reads_input(tape.like(read))
        return Storage(waves.elements, made.dtype, made.grad, "none")

    t.op(f"{name}_waves", "elementwise", "other", (angles,), (waves,), of="positional", keeps=sines)
    return waves


def points(t: Trace, spec: MaskDecoder, width: Size, load: Load) -> Tensor:
    """[batch * (n_points + 1), width]: where each point is and the vector of its kind. The one more stands for none."""
    n = load.batch * (spec.n_points + 1)
    with t.part("points", of="embedding") as out:
        places = sinusoids(t, spec, "at", n, width)
        none = t.parameters("none", (t.weight("none.weight", 1, width),), 1, width)
        if spec.maps:
            kinds = t.gather("kind", (t.weight("kind.weight", spec.n_kinds, width),), n, width)
        else:
            tables = tuple(t.weight(f"kind.{i}.weight", 1, width) for i in range(spec.n_kinds))
            kinds = t.parameters("kind", tables, 1, width)
        out.append(_chosen(t, places, none, kinds, n, width, 3 if spec.maps else 4))
    return out[0]


def _chosen(t: Trace, places: Tensor, none: Tensor, kinds: Tensor, n: Size, width: Size, choices: int) -> Tensor:
    """Places of points plus their kinds, and in place of those that are none one vector. choices: how many times it is
    chosen among two by a byte for each point, each of which stays."""
    y = t.made(n, width, places, none, kinds)

    def keeps(tape: Tape, places: Storage, none: Storage, kinds: Storage) -> Storage:
        made = tape.like(places, none, kinds)
        if made.grad:
            tape.keep(Storage(choices * n, "bool", False, "none"), "choices")
        return Storage(y.elements, made.dtype, made.grad)

    t.op("chosen", "elementwise", "other", (places, none, kinds), (y,), of="other", keeps=keeps)
    return y


def given_mask(t: Trace, spec: MaskDecoder, width: Size, grid: tuple[Size, Size], load: Load) -> Tensor:
    """What is added to the picture's vectors: a mask from before in as many vectors, or one learned vector for none."""
    if not spec.given_mask:
        with t.part("mask", of="other"):
            _idle(t, spec, width)
        return t.parameters("no_mask", (t.weight("no_mask.weight", 1, width),), 1, width)
    n = load.batch * grid[0] * grid[1]
    t.parameters("no_mask", (t.weight("no_mask.weight", 1, width),), 0, width)
    with t.part("mask", of="other") as out:
        x = t.patch("conv1", t.constant(16 * n, 1), exact_div(spec.d_mask, 4), (2, 2), 4 * n, bias=True)
        x = t.activation("activation1", spec.mask_activation, t.norm("norm1", spec.mask_norm, x))
        x = t.patch("conv2", x, spec.d_mask, (2, 2), n, bias=True)
        x = t.activation("activation2", spec.mask_activation, t.norm("norm2", spec.mask_norm, x))
        out.append(t.convolution("conv3", x, width, (1, 1), n))
    return out[0]


def _idle(t: Trace, spec: MaskDecoder, width: Size) -> None:
    """Weights of what reads a mask, where none is given."""
    d_mask, quarter = spec.d_mask, exact_div(spec.d_mask, 4)
    shapes = {"conv1": (quarter, 1, 2, 2), "conv2": (d_mask, quarter, 2, 2), "conv3": (width, d_mask, 1, 1)}
    weights = [
        t.weight(f"{name}.{of}", *each) for name, s in shapes.items() for of, each in (("weight", s), ("bias", s[:1]))
    ]
    for name, n in (("norm1", quarter), ("norm2", d_mask)):
        weights += [t.weight(f"{name}.{of}", n, of="norm") for of in ("weight", "bias")]
    t.parameters("unread", tuple(weights), 0, width)
