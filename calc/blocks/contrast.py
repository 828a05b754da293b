"""Texts against pictures: the products behind a contrastive loss."""

from __future__ import annotations

from calc.blocks.linear import elementwise, product
from calc.functions import Matmul
from calc.load import Load
from calc.op import Part, Weight
from calc.spec import Contrast


def contrast(spec: Contrast, load: Load) -> Part:
    """Vectors [batch, d] and [images, d] -> [batch, images]: 2 * batch * images * d FLOPs, then a scale."""
    products = 2 * load.batch * load.images * spec.d_contrast
    vectors, given = (load.batch + load.images) * spec.d_contrast, load.batch * load.images
    names = ("logit_scale", "logit_bias") if spec.bias else ("logit_scale",)
    numbers = tuple(Weight(name, (), "other") for name in names)
    body = (
        elementwise("normalise", "other", "l2norm", vectors, vectors),
        product("similarity", "other", products, Matmul(load.batch, load.images, spec.d_contrast, weighed=False)),
        elementwise("scale", "other", "scale", given, given, weights=numbers),
    )
    return Part("contrast", body)
