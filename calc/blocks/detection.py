"""A picture through a residual network to vectors, and the queries that a detector's decoder starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calc.blocks.convolution import convolution, steps
from calc.blocks.linear import elementwise, gather
from calc.gradients import weightless
from calc.load import Load
from calc.op import Op, Part, Weight
from calc.sizes import Size, exact_div
from calc.spec import Queries, ResNet


@dataclass(frozen=True, slots=True)
class _Picture:
    """How large the picture still is, in how many sequences, and whether something before it is trained."""

    batch: Size
    height: Size
    width: Size
    trained: bool = False

    def after(self, kernel: int, stride: int) -> _Picture:
        """Behind a convolution or pooling padded by half its kernel."""
        height, width = (steps(side, kernel, stride, kernel // 2) for side in (self.height, self.width))
        return _Picture(self.batch, height, width, self.trained)

    @property
    def places(self) -> Size:
        return self.batch * self.height * self.width


def resnet(spec: ResNet, vocab_size: Size, d_model: Size, load: Load) -> tuple[Part, Size]:
    """Pictures [batch, channels, height, width] -> [batch, height / 32 * width / 32, d_model] (halves rounded up).

    FLOPs 2 * places * channels in * channels out * kernel of each convolution. Where everything before a convolution is
    frozen, its input needs no gradient.
    """
    height, width = (spec.height, spec.width) if load.image is None else load.image
    body, picture = _stem(spec, _Picture(load.batch, height, width))
    d_in = spec.stem
    for i, (depth, d_out) in enumerate(zip(spec.depths, spec.widths, strict=True)):
        stride = 2 if i or spec.halve_first_stage else 1
        layers: list[Part] = []
        for j in range(depth):
            part, picture = _layer(
                spec, f"layers.{j}", d_in, d_out, stride if j == 0 else 1, i >= spec.trained_from, picture
            )
            layers.append(part)
            d_in = d_out
        body.append(Part(f"stages.{i}", tuple(layers)))
    backbone = Part("backbone", tuple(body))
    places = picture.places
    project = convolution("project_in", places, d_in, d_model, (1, 1), places, input_grad=picture.trained)
    front: list[Part | Op] = [backbone, project]
    if spec.axis_positions is not None:
        shape = (spec.axis_positions, exact_div(d_model, 2))
        tables = tuple(Weight(f"{axis}.weight", shape, "positional") for axis in ("row", "column"))
        front.append(gather("position", "positional", tables, picture.height * picture.width, d_model))
    return Part("embedding", tuple(front)), picture.height * picture.width


def _stem(spec: ResNet, picture: _Picture) -> tuple[list[Part | Op], _Picture]:
    """A convolution of 7 x 7 and a pooling of 3 x 3, which halve the picture twice."""
    trained = spec.trained_from < 0
    pixels = picture.places
    picture = picture.after(7, 2)
    conv = convolution(
        "stem", picture.places, spec.channels, spec.stem, (7, 7), pixels, bias=False, trained=trained, input_grad=False
    )
    halved = picture.after(3, 2)
    given, left = picture.places * spec.stem, halved.places * spec.stem
    return [
        conv,
        elementwise("stem_norm", "other", "batchnorm", given, given, to_chain=given),
        elementwise("stem_activation", "other", "relu", given, given),
        elementwise("stem_pool", "other", "pool", given, left),
    ], _Picture(halved.batch, halved.height, halved.width, trained)


def _layer(
    spec: ResNet, name: str, d_in: int, d_out: int, stride: int, trained: bool, before: _Picture
) -> tuple[Part, _Picture]:
    """Two or three convolutions, and one on the shortcut where width or size change."""
    inner = d_out // 4 if spec.bottleneck else d_out
    shapes = [(d_in, inner, 3, stride), (inner, d_out, 3, 1)]
    if spec.bottleneck:
        first, middle = (stride, 1) if spec.stride_first else (1, stride)
        shapes = [(d_in, inner, 1, first), (inner, inner, 3, middle), (inner, d_out, 1, 1)]
    body: list[Op] = []
    after = before
    for i, (wide, out, kernel, step) in enumerate(shapes):
        read = after.places
        after = after.after(kernel, step)
        places, grad = after.places, after.trained
        square = (kernel, kernel)
        body += [
            convolution(f"conv{i}", places, wide, out, square, read, bias=False, trained=trained, input_grad=grad),
            elementwise(f"norm{i}", "other", "batchnorm", places * out, places * out, to_chain=places * out),
        ]
        if i < len(shapes) - 1:
            body.append(elementwise(f"activation{i}", "other", "relu", places * out, places * out))
        after = _Picture(after.batch, after.height, after.width, after.trained or trained)
    given = after.places * d_out
    if d_in != d_out or stride != 1:
        grad, read, one = before.trained, before.places, (1, 1)
        body += [
            convolution("shortcut", after.places, d_in, d_out, one, read, bias=False, trained=trained, input_grad=grad),
            elementwise("shortcut_norm", "other", "batchnorm", given, given, to_chain=given),
        ]
    body.append(elementwise("add", "other", "add", 2 * given, given, from_chain=given, to_chain=given))
    return Part(name, (*body, elementwise("activation", "other", "relu", given, given))), after


def queries(spec: Queries, vocab_size: Size, d_model: Size, load: Load) -> tuple[Part, Size]:
    """n_queries learned vectors for each picture, whatever the length asked for."""
    table = Weight("query.weight", (spec.n_queries, d_model), "embedding")
    found = gather("query", "embedding", (table,), spec.n_queries, d_model)
    return Part("embedding", (found,)), spec.n_queries


def from_zeros(tree: Part) -> Part:
    """`tree` of a model whose first layer reads zeros (DETR's decoder): its values' projection passes nothing back.

    Queries and keys are projected from what is added to the zeros, which is trained.
    """
    at = next(i for i, child in enumerate(tree.body) if isinstance(child, Part) and child.layer)
    part = tree.body[at]
    assert isinstance(part, Part)
    first = replace(weightless(_unread(part)), name=f"{part.name} (first)", calls=1)
    body = (*tree.body[:at], first, replace(part, calls=part.calls - 1), *tree.body[at + 1 :])
    return replace(tree, body=body)


def _unread(layer: Part) -> Part:
    """`layer` whose self-attention projects values from what needs no gradient."""

    def unread(child: Part | Op) -> Part | Op:
        if isinstance(child, Part):
            return _unread(child) if child.name == "attention" else child
        return replace(child, input_grad=False) if child.name == "v_proj" else child

    return replace(layer, body=tuple(map(unread, layer.body)))
