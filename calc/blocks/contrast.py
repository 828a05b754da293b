"""Texts against pictures: the products behind a contrastive loss."""

from __future__ import annotations

from calc.blocks.linear import elementwise
from calc.load import Load
from calc.op import Op, Part, Weight
from calc.spec import Contrast


def contrast(spec: Contrast, load: Load) -> Part:
    """Vectors [batch, d] and [images, d] -> [batch, images]: 2 * batch * images * d FLOPs, then a scale."""
    products = 2 * load.batch * load.images * spec.d_contrast
    scale = Op("scale", "elementwise", "other", weights=(Weight("logit_scale", (), "other"),))
    norms = elementwise("normalise", "other")
    return Part("contrast", (norms, Op("similarity", "attention", "other", products), scale))
