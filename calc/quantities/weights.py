"""Weight bytes: what the parameters take in one number format."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from calc.dtypes import Quantized, byte_count, dtype, weight_dtype
from calc.quantities.parameters import parameters, weights
from calc.sizes import Size, ceil_div
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.trace.op import Component, Weight
from calc.trace.part import Leaf

Share = Callable[[str, Weight, Leaf], tuple[Size, Size | None]]
"""(path, weight, where it stands) -> (copies, elements of each) that one rank holds; None for all elements."""


def weight_bytes(spec: ModelSpec, name: str = "bf16", share: Share | None = None) -> dict[str, Size]:
    """Bytes of all parameters by component, tied weights once, in the number format called `name`.

    A plain format is that of every tensor: int4 counts half a byte a parameter and no scales, and an odd number of
    4-bit elements takes a whole last byte. A quantized one is that of the matrices that `quantizes` names, tensor by
    tensor; all others are in its `rest`. share: count what one rank holds; a part of a quantized matrix has its part of
    the scales. Errors: Refused for an unknown format.
    """
    kind = weight_dtype(name)
    if share is None and not isinstance(kind, Quantized):
        return {component: byte_count(elements, kind.bits) for component, elements in parameters(spec).items()}
    totals: dict[str, Size] = {}
    for path, weight, leaf in weights(spec):
        copies, elements = (leaf.copies, None) if share is None else share(path, weight, leaf)
        if not isinstance(kind, Quantized):
            # Counted in elements here: 4-bit elements share bytes across tensors.
            size = weight.elements if elements is None else elements
        elif quantizes(weight, leaf):
            size = kind.matrix_bytes(*weight.shape)
            size = size if elements is None else ceil_div(size * elements, weight.elements)
        else:
            size = byte_count(weight.elements if elements is None else elements, dtype(kind.rest).bits)
        component = leaf.component or weight.component
        totals[component] = totals.get(component, 0) + copies * size
    if not isinstance(kind, Quantized):
        totals = {component: byte_count(elements, kind.bits) for component, elements in totals.items()}
    return {component: totals[component] for component in get_args(Component) if component in totals}


def plain_width(run: Run) -> dict[str, int]:
    """Whole bytes of one parameter, by the name of its symbol; nothing where a format packs them."""
    kind = weight_dtype(run.dtype)
    return {} if isinstance(kind, Quantized) or kind.bits < 8 else {"b_dtype": kind.width}


def in_width(spec: ModelSpec, width: Size) -> dict[str, Size]:
    """As `weight_bytes` where every parameter takes so many bytes."""
    return {component: width * elements for component, elements in parameters(spec).items()}


def quantizes(weight: Weight, leaf: Leaf) -> bool:
    """Whether a quantized format is that of this tensor: a dense matrix in a layer.

    Not a router's, an adapter's or a vision tower's. Embeddings, norms, biases, convolutions and heads are left as they
    are, as in the GPTQ and AWQ checkpoints that are published (Frantar et al. 2022, arXiv:2210.17323, section 5).
    """
    dense = leaf.op.rows is not None and len(weight.shape) == 2
    return dense and leaf.layer is not None and leaf.component is None and weight.component not in ("router", "adapter")


def narrow(weight: Weight, leaf: Leaf) -> bool:
    """Whether training in fewer bits makes a narrow copy of this tensor: a matrix in a layer, of narrow products."""
    dense = leaf.op.rows is not None and len(weight.shape) == 2 and leaf.layer is not None
    return dense and weight.narrows and weight.component != "adapter"
