"""The projector behind a vision tower."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.linear import elementwise, linear, norm, product
from calc.errors import Refused
from calc.functions import Matmul
from calc.load import Load
from calc.op import Op, Part
from calc.sizes import Size, exact_div
from calc.spec import Projector


def projector(
    spec: Projector, d_model: Size, d_reader: Size, load: Load, grid: tuple[Size, Size] | None = None
) -> Part:
    """[batch, seq - skip, d_model] -> [batch, (seq - skip) / merge, d_reader], for a stack of width d_reader.

    FLOPs 2 * vectors * d_in * d_out a dense layer; the mean as a product takes 2 * batch * (seq - skip) *
    ((seq - skip) / merge) * d_model more, and of its operands only the vectors need a gradient.
    grid: rows and columns of the patches, where the tower reads some.
    Errors: Refused for a picture whose vectors cannot be joined without a rest.
    """
    read = load.seq - spec.skip
    if isinstance(read, int) and read % spec.merge:
        raise Refused("image", f"a picture whose patches make whole groups of {spec.merge}", f"{read} patches")
    for patches, block in zip(grid or (), (spec.merge_rows, spec.merge // spec.merge_rows), strict=False):
        if isinstance(patches, int) and patches % block:
            expected = f"a picture of whole blocks of {spec.merge_rows} x {spec.merge // spec.merge_rows} patches"
            raise Refused("image", expected, f"{patches} patches along a side")
    given = exact_div(read, spec.merge)
    body: list[Op] = [] if spec.before is None else [norm("before", spec.before, (d_model,), load.batch * read)]
    width = spec.merge * d_model if spec.join == "concat" else d_model
    if spec.join == "mean-product":
        shape = Matmul(given, d_model, read, load.batch, weighed=False)
        pool = product("pool", "other", 2 * load.batch * read * given * d_model, shape)
        body.append(replace(pool, kind="linear"))
    if spec.norm is not None:
        body.append(norm("norm", spec.norm, (width,), load.batch * given))
    for i, layer in enumerate(spec.layers):
        if i and layer.activated:
            one = load.batch * given * width
            body.append(elementwise(f"activation_{i}", "other", spec.activation, one, one))
        d_out = d_reader if i == len(spec.layers) - 1 else width if layer.d_out is None else layer.d_out
        body.append(linear(layer.name, load.batch * given, width, d_out, "other", bias=layer.bias))
        width = d_out
    if not spec.depths:
        return Part(spec.name, tuple(body))
    return Part(f"{spec.name}.{{}}", tuple(body), calls=len(spec.depths), copies=len(spec.depths))
