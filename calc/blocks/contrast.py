"""Texts against pictures: the products behind a contrastive loss."""

from __future__ import annotations

from calc.spec import Contrast
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def contrast(t: Trace, spec: Contrast, texts: Tensor, pictures: Tensor, load: Load) -> Tensor:
    """Vectors [batch, d] and [images, d] -> [batch, images]: 2 * batch * images * d FLOPs, then a scale.

    Both are divided by their lengths first (Radford et al. 2021, arXiv:2103.00020, figure 3).
    """
    with t.part("contrast", texts, pictures, of="other", role="pictures") as out:
        texts, pictures = t.normalized("normalise", texts, pictures)
        y = t.made(load.batch, load.images, texts, pictures)
        t.op(
            "similarity",
            "attention",
            "batched_matmul",
            (texts, pictures),
            (y,),
            flops=2 * load.batch * load.images * spec.d_contrast,
            shape=Matmul(load.batch, load.images, spec.d_contrast, weighed=False),
            keeps=lambda tape, a, b: tape.product(a, b, y.elements, "stream"),
        )
        y = _scaled(t, spec, y)
        out.append(y)
    return y


def _scaled(t: Trace, spec: Contrast, x: Tensor) -> Tensor:
    """x times a learned number, told as its logarithm, and plus another where the spec has one."""
    names = ("logit_scale", "logit_bias") if spec.bias else ("logit_scale",)
    weights = tuple(t.weight(name) for name in names)
    y = t.made(x.rows, x.width, x, weights=weights)

    def keeps(tape: Tape, read: Storage) -> Storage:
        logarithm = Storage(1, tape.settings.stream, weights[0].trainable, "none")
        return tape.times(read, tape.reads_result(logarithm))

    t.op("scale", "elementwise", "scale", (x,), (y,), weights=weights, keeps=keeps)
    return y
