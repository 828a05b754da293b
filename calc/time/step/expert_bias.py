"""The bias behind experts' last product, where a stack adds it to each expert's rows by itself."""

from __future__ import annotations

from calc.spec.run import Run
from calc.time.kernels.kernel import Kernel
from calc.trace.functions import Matmul
from calc.trace.part import Leaf

FORWARD, BACKWARD = 28.0, 40.0
"""Bytes of an element of the results that go through memory. Forward: bias times the router's fp32 weight (4), their
sum with the result (2 + 4 + 4), all experts' rows in one (4 + 4), in 16 bits again (4 + 2). Back: the gradient in fp32
(2 + 4), that of the result (4 + 2), rows in one (2 + 2), a product and a sum each for bias and weight (12 + 12).
Source: Megatron-Core 0.16, megatron/core/transformer/moe/experts.py, TEGroupedMLP._apply_bias."""
LAUNCHES, LAUNCHES_BACK = 2.0, 6.0
"""Kernels for each expert: of the above those that no row of another expert takes part in."""


def behind_experts(leaves: list[Leaf], run: Run) -> frozenset[int]:
    """The products, by their leaf, whose bias is added so: those with one whose result goes back to its token."""
    if run.stack is None or not run.stack.bias_an_expert:
        return frozenset()
    read = {id(leaf.op.inputs[0]) for leaf in leaves if leaf.op.function == "combine"}
    some = (leaf for leaf in leaves if leaf.expert and len(leaf.op.weights) > 1 and id(leaf.op.outputs[0]) in read)
    return frozenset(map(id, some))


def added_apart(product: Kernel, elements: float, dtype: str) -> Kernel:
    """The passes over an expert product's `elements` that add its bias, or that take its gradient. dtype: of the
    stream."""
    back = product.direction == "backward"
    groups = float(product.shape.groups) if isinstance(product.shape, Matmul) else 1.0
    return product._replace(
        function="add",
        shape=None,
        flops=0.0,
        dtype=dtype,
        bytes=(BACKWARD if back else FORWARD) * elements,
        weight_bytes=None,
        routed=None,
        launches=(LAUNCHES_BACK if back else LAUNCHES) * groups,
    )
