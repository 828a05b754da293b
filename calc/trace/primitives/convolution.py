"""Convolutions, the length that they leave, and the cutting of pictures into patches."""

from __future__ import annotations

from math import prod

from calc import checks
from calc.sizes import Size, exact_div, floor_div, quotient
from calc.trace.functions import Matmul
from calc.trace.op import Component, Moves, Weight
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def convolution(
    t: Recorder,
    name: str,
    x: Tensor,
    d_out: Size,
    kernel: tuple[int, ...],
    places: Size,
    *,
    groups: Size = 1,
    bias: bool = True,
    trained: bool = True,
    computed: bool = False,
    of: Component = "other",
) -> Tensor:
    """x [places of x, d_in] -> [places, d_out] by a weight [d_out, d_in / groups, *kernel].

    places: positions of the result, of all sequences together, edges that padding fills included: FLOPs are
    2 * places * d_out * d_in / groups * kernel, as torch's counter has them. trained: False where the description
    leaves the weight frozen. computed: the weight is made of others ahead of it, and so a tensor that may be kept.
    """
    per_group = exact_div(x.width, groups)
    weights = [t.weight(f"{name}.weight", d_out, per_group, *kernel, of=of, trainable=trained)]
    if bias:
        weights.append(t.weight(f"{name}.bias", d_out, of=of, trainable=trained))
    y = t.made(places, d_out, x, weights=tuple(weights))
    t.op(
        name,
        "linear",
        "convolution",
        (x,),
        (y,),
        weights=tuple(weights),
        of=of,
        flops=2 * places * d_out * per_group * prod(kernel),
        shape=Matmul(places, quotient(d_out, groups), per_group * prod(kernel), groups),
        keeps=lambda tape, read: saved_by_convolution(tape, read, y, weights[0], computed=computed),
    )
    return y


def patch(
    t: Recorder, name: str, pixels: Tensor, d_out: Size, kernel: tuple[Size, ...], n: Size, *, bias: bool
) -> Tensor:
    """Pixels [all of them, channels] -> [n, d_out], a vector for each of n patches of `kernel` pixels.

    A convolution whose kernel lies on each patch once: the product of a dense matrix [d_out, channels * kernel] with
    all patches, 2 * n * d_out * channels * kernel FLOPs; it reads as many pixels as the patches have, those that
    several patches share several times.
    """
    weights = [t.weight(f"{name}.weight", d_out, pixels.width, *kernel, of="other")]
    if bias:
        weights.append(t.weight(f"{name}.bias", d_out, of="other"))
    size = pixels.width
    for side in kernel:
        size = size * side
    y = t.made(n, d_out, pixels, weights=tuple(weights))
    t.op(
        name,
        "linear",
        "matmul",
        (pixels,),
        (y,),
        weights=tuple(weights),
        of="other",
        flops=2 * n * d_out * size,
        shape=Matmul(n, d_out, size),
        moves=lambda: Moves(n * size, n * d_out),
        keeps=lambda tape, read: saved_by_convolution(tape, read, y, weights[0]),
    )
    return y


def upscaled(t: Recorder, name: str, x: Tensor, d_out: Size) -> Tensor:
    """x [n, d_in] -> [4 * n, d_out]: 2 x 2 vectors of each, by a weight [d_in, d_out, 2, 2] and a bias.

    A transposed convolution whose kernel lies on each result once: the product of a dense matrix [d_in, 4 * d_out] with
    all vectors, 8 * n * d_in * d_out FLOPs.
    """
    weights = (
        t.weight(f"{name}.weight", x.width, d_out, 2, 2, of="other"),
        t.weight(f"{name}.bias", d_out, of="other"),
    )
    y = t.made(4 * x.rows, d_out, x, weights=weights)
    t.op(
        name,
        "linear",
        "matmul",
        (x,),
        (y,),
        weights=weights,
        of="other",
        flops=8 * x.rows * x.width * d_out,
        shape=Matmul(x.rows, 4 * d_out, x.width),
        keeps=lambda tape, read: saved_by_convolution(tape, read, y, weights[0]),
    )
    return y


def steps(n: Size, kernel: int, stride: int, padding: int) -> Size:
    """Positions that a convolution over n leaves: floor((n + 2 * padding - kernel) / stride) + 1, as torch's Conv1d.

    Errors: Refused where nothing is left, as of an input shorter than the kernel.
    """
    left = n + (2 * padding - kernel)
    return checks.size("steps behind a convolution", (left if stride == 1 else floor_div(left, stride)) + 1)


def saved_by_convolution(tape: Tape, x: Storage, y: Tensor, weight: Weight, *, computed: bool = False) -> Storage:
    """x and, where they are no parameters themselves, the weights: both, whichever of them needs a gradient.

    That is all of x even where the weight alone is trained. computed: the weights are made of others.
    """
    s = tape.settings
    read = tape.cast(x, s.dtype) if s.autocast else x
    grad = x.grad or weight.trainable
    if grad:
        tape.keep(read, "input")
        if s.autocast:
            tape.keep(Storage(weight.elements, s.dtype, False, "none", weight=weight), "cast weight")
        elif computed:
            tape.keep(Storage(weight.elements, s.dtype, False, "none"), "weight")
    return Storage(y.elements, read.dtype, grad, y.split)


def max_pooled(t: Recorder, name: str, x: Tensor, places: Size) -> Tensor:
    """x [places of x, d] -> [places, d], the largest of each neighbourhood: x is kept, and where each was found."""
    return neighbours(t, name, x, places, largest=True)


def neighbours(t: Recorder, name: str, x: Tensor, places: Size, *, largest: bool) -> Tensor:
    """x [places of x, d] -> [places, d]: of each neighbourhood the largest values, whose places are kept, or the mean;
    and x is kept, of which the mean needs the shape alone."""
    y = t.made(places, x.width, x)

    def keeps(tape: Tape, read: Storage) -> Storage:
        if read.grad:
            tape.keep(read, "input")
            if largest:
                tape.keep(Storage(y.elements, "int64", False, "none"), "places")
        return Storage(y.elements, read.dtype, read.grad, y.split)

    t.op(name, "elementwise", "pool", (x,), (y,), of="other", keeps=keeps)
    return y
