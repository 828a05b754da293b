"""Sound in, vectors out: the convolutions ahead of a speech model's layers."""

from __future__ import annotations

from calc.blocks.convolution import convolution, steps
from calc.blocks.linear import added, elementwise, gather, linear, norm
from calc.load import Load
from calc.op import Op, Part, Weight
from calc.sizes import Size, exact_div
from calc.spec import Convolution, Frames, Norm, PositionConvolution, Quantizer

AFFINE = Norm(kind="layernorm", bias=True)


def frames(spec: Frames, vocab_size: Size, d_model: Size, load: Load) -> tuple[Part, Size]:
    """Frames [batch, n_frames, d_frame] -> [batch, steps, d_model].

    Each convolution leaves floor((n + 2 * padding - kernel) / stride) + 1 of n steps, and as many of the frame's values
    where it runs over them too; what is left of those lies side by side in one vector. Sound needs no gradient.
    """
    body, length, width = _convolutions(spec, load)
    tokens = load.batch * length
    if spec.before is not None:
        body.append(norm("before", spec.before, (width,), tokens, follows=False))
    if spec.quantizer is not None:
        body.append(_quantizer(spec.quantizer, width, tokens))
    if spec.project:
        body.append(linear("project_in", tokens, width, d_model, "embedding", bias=spec.project_bias))
    if spec.mask_vector:
        vector = Weight("mask.weight", (d_model,), "embedding")
        body.append(gather("mask", "embedding", (vector,), 1, d_model))
    if spec.n_positions is not None:
        table = Weight("position.weight", (spec.n_positions, d_model), "positional", spec.trained_positions)
        body.append(gather("position", "positional", (table,), length, d_model, feeds=True))
        body.append(added("position_add", "positional", tokens, d_model, length * d_model))
    if spec.sinusoidal:
        body.append(added("sinusoids", "positional", tokens, d_model, 0))
    if spec.position_convolution is not None:
        body.append(_positions(spec.position_convolution, d_model, load.batch, length))
    if spec.norm is not None:
        body.append(norm("norm", spec.norm, (d_model,), tokens))
    return Part("embedding", tuple(body)), length


def _convolutions(spec: Frames, load: Load) -> tuple[list[Part | Op], Size, Size]:
    """All convolutions, the steps that they leave of a sequence, and the width of one step."""
    own = load.seq if spec.n_frames is None else spec.n_frames
    length: Size = own if load.source is None else load.source
    planes: Size = 1 if spec.convolutions[0].dims == 2 else spec.d_frame
    values: Size = spec.d_frame if spec.convolutions[0].dims == 2 else 1
    body: list[Part | Op] = []
    for i, each in enumerate(spec.convolutions):
        if each.dims == 1 and i and spec.convolutions[i - 1].dims == 2:
            planes, values = planes * values, 1
        read = load.batch * length * values
        length = steps(length, each.kernel, each.stride, each.padding)
        if each.dims == 2:
            values = steps(values, each.kernel, each.stride, each.padding)
        body.append(_layer(each, planes, load.batch * length * values, read, first=i == 0))
        planes = exact_div(each.n_channels, 2) if each.glu else each.n_channels
    return body, length, planes * values


def _layer(spec: Convolution, d_in: Size, places: Size, read: Size, *, first: bool) -> Part:
    """A convolution, its norm and its activation."""
    kernel = (spec.kernel,) * spec.dims
    ops = [convolution("conv", places, d_in, spec.n_channels, kernel, read, bias=spec.bias, input_grad=not first)]
    given = places * spec.n_channels
    if spec.norm is not None:
        ops.append(norm("norm", AFFINE, (spec.n_channels,), places, feeds=True))
    if spec.glu:
        ops.append(elementwise("activation", "other", "swiglu", given, exact_div(given, 2)))
    elif spec.activation is not None:
        ops.append(elementwise("activation", "other", spec.activation, given, given))
    return Part(spec.name, tuple(ops))


def _positions(spec: PositionConvolution, d_model: Size, batch: Size, length: Size) -> Part:
    """The convolution runs over one step more than it keeps where its kernel is even."""
    places = 0 if not spec.runs else batch * steps(length, spec.kernel, 1, spec.kernel // 2)
    read = batch * length if spec.runs else 0
    conv = convolution("conv", places, d_model, d_model, (spec.kernel,), read, groups=spec.n_groups)
    scale = (Weight("scale", (spec.kernel,), "other"),)
    made = conv.weights[0].elements
    lengths = elementwise("scale", "other", "l2norm", made, made, weights=scale)
    given = read * d_model
    body = (
        lengths,
        conv,
        elementwise("activation", "other", "gelu", given, given),
        elementwise("add", "other", "add", 2 * given, given, from_chain=given),
    )
    return Part("position_convolution", body)


def _quantizer(spec: Quantizer, width: Size, tokens: Size) -> Part:
    """Scores of every entry of every codebook, the chosen ones, and their projection. Choosing multiplies nothing."""
    entries = spec.n_codebooks * spec.n_entries
    book = Weight("codevectors", (entries, exact_div(spec.d_code, spec.n_codebooks)), "other")
    return Part(
        "quantizer",
        (
            linear("scores", tokens, width, entries, "other", bias=True),
            gather("choose", "other", (book,), tokens * spec.n_codebooks, exact_div(spec.d_code, spec.n_codebooks)),
            linear("project", tokens, spec.d_code, spec.d_target, "other", bias=True),
        ),
    )
