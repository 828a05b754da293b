"""Pixels in, vectors out: patch embedding as a convolution whose kernel is one patch."""

from __future__ import annotations

from calc import checks
from calc.blocks.linear import added, elementwise, gather, norm
from calc.functions import Matmul
from calc.load import Load
from calc.op import Moves, Op, Part, Weight
from calc.sizes import Size, floor_div
from calc.spec import Patches


def patches(spec: Patches, vocab_size: Size, d_model: Size, load: Load) -> tuple[Part, Size]:
    """Pictures [batch, channels, height, width] -> [batch, rows * columns + n_special, d_model].

    FLOPs 2 * batch * rows * columns * d_model * channels * frames * patch_height * patch_width; rows are
    floor((height - patch_height) / stride_height) + 1, as in torch's Conv2d without padding. Pixels need no gradient.
    """
    rows, columns = grid(spec, load)
    pixels = spec.channels * spec.frames * spec.patch_height * spec.patch_width
    kernel = (spec.patch_height, spec.patch_width)
    kernel = kernel if spec.frames == 1 else (spec.frames, *kernel)
    weights = [Weight("patch.weight", (d_model, spec.channels, *kernel), "other")]
    if spec.bias:
        weights.append(Weight("patch.bias", (d_model,), "other"))
    flops = 2 * load.batch * rows * columns * d_model * pixels
    n = load.batch * rows * columns
    vectors = n + load.batch * spec.n_special
    body = [
        Op(
            "patch",
            "linear",
            "other",
            flops,
            tuple(weights),
            input_grad=False,
            function="matmul",
            shape=Matmul(n, d_model, pixels),
            moves=lambda: Moves(n * pixels, n * d_model),
        )
    ]
    if spec.n_special:
        special = Weight("special.weight", (spec.n_special, d_model), "embedding")
        body.append(gather("special", "embedding", (special,), load.batch * spec.n_special, d_model))
        body.append(elementwise("concat", "embedding", "copy", vectors * d_model, vectors * d_model, from_chain=0))
    if spec.mask_vector:
        body.append(gather("mask", "embedding", (Weight("mask.weight", (d_model,), "embedding"),), 0, d_model))
    if spec.n_positions is not None:
        tables = () if spec.position_tables == 1 else (spec.position_tables,)
        rows_of = Weight("position.weight", (*tables, spec.n_positions, d_model), "positional")
        found = (rows * columns + spec.n_special) * spec.position_tables
        body.append(gather("position", "positional", (rows_of,), found, d_model, feeds=True))
        body.append(added("position_add", "positional", vectors, d_model, found * d_model))
    if spec.norm is not None:
        body.append(norm("norm", spec.norm, (d_model,), vectors))
    return Part("embedding", tuple(body)), rows * columns + spec.n_special


def grid(spec: Patches, load: Load) -> tuple[Size, Size]:
    """Rows and columns of the patches of one picture."""
    height, width = (spec.height, spec.width) if load.image is None else load.image
    rows = _steps(height, spec.patch_height, spec.stride_height)
    return rows, _steps(width, spec.patch_width, spec.stride_width)


def _steps(pixels: Size, patch: Size, stride: Size | None) -> Size:
    """How many patches fit along one side. Errors: Refused where not one does."""
    fit = floor_div(pixels, patch) if stride is None else floor_div(pixels - patch, stride) + 1
    return checks.size("patches along a side of the image", fit)
