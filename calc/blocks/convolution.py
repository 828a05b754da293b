"""Convolutions: the op and the length that it leaves."""

from __future__ import annotations

from math import prod

from calc import checks
from calc.functions import Matmul
from calc.op import Component, Moves, Op, Weight
from calc.sizes import Size, exact_div, floor_div, quotient


def convolution(
    name: str,
    places: Size,
    d_in: Size,
    d_out: Size,
    kernel: tuple[int, ...],
    read: Size,
    *,
    groups: Size = 1,
    bias: bool = True,
    trained: bool = True,
    input_grad: bool = True,
    component: Component = "other",
) -> Op:
    """x [d_in, ...] -> [d_out, places] by a weight [d_out, d_in / groups, *kernel].

    places: positions of the result, of all sequences together, edges that padding fills included: FLOPs are
    2 * places * d_out * d_in / groups * kernel, as torch's counter has them. read: positions of x.
    """
    per_group = exact_div(d_in, groups)
    weights = [Weight(f"{name}.weight", (d_out, per_group, *kernel), component, trained)]
    if bias:
        weights.append(Weight(f"{name}.bias", (d_out,), component, trained))
    flops = 2 * places * d_out * per_group * prod(kernel)
    return Op(
        name,
        "linear",
        component,
        flops,
        tuple(weights),
        input_grad=input_grad,
        live=input_grad or trained,
        function="convolution",
        shape=Matmul(places, quotient(d_out, groups), per_group * prod(kernel), groups),
        moves=lambda: Moves(read * d_in, places * d_out),
    )


def steps(n: Size, kernel: int, stride: int, padding: int) -> Size:
    """Positions that a convolution over n leaves: floor((n + 2 * padding - kernel) / stride) + 1, as torch's Conv1d.

    Errors: Refused where nothing is left, as of an input shorter than the kernel.
    """
    left = n + (2 * padding - kernel)
    return checks.size("steps behind a convolution", (left if stride == 1 else floor_div(left, stride)) + 1)
