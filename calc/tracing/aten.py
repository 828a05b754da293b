"""What one ATen operation is in the record: an explicit table, a small rule for each operation that has products.

Shapes are read from the call's own tensors, whose numbers need not exist. A multiply-accumulate is 2 FLOPs, as
everywhere; operations without products have 0. Sources: the operations' documentation (PyTorch 2.13) and, for what is
a product, torch.utils.flop_counter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from calc.errors import Refused
from calc.trace.functions import Attend, Function, Matmul
from calc.trace.op import Kind


@dataclass(frozen=True, slots=True)
class Work:
    """One op to be recorded.

    name: behind the module's path. operands: those two of the call's arguments, by place, that are multiplied; what of
    them needs a gradient is what going back multiplies once more. rows: vectors that a dense matrix multiplies.
    looked_up: elements of a table that are read, where that is not all of it. back: FLOPs of going back to one operand,
    where they are not those of the op.
    """

    name: str
    kind: Kind = "elementwise"
    function: Function = "other"
    flops: int = 0
    shape: Matmul | Attend | None = None
    operands: tuple[int, ...] = ()
    rows: int | None = None
    looked_up: int | None = None
    back: int | None = None


Rule = Callable[[tuple[Any, ...], dict[str, Any], Any], tuple[Work, ...]]
"""(arguments, keyword arguments, result) -> the ops that stand for the call."""


def _product(name: str, a: Any, b: Any, places: tuple[int, int]) -> tuple[Work, ...]:
    """[…, m, k] x […, k, n], perhaps of several matrices."""
    m, k = a.shape[-2:]
    n, groups = b.shape[-1], prod(a.shape[:-2])
    return (Work(name, "linear", "matmul", 2 * groups * m * n * k, Matmul(m, n, k, groups), places, m),)


def _mm(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    return _product("mm", args[0], args[1], (0, 1))


def _addmm(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    return _product("mm", args[1], args[2], (1, 2))


def _mv(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    m, k = args[0].shape
    return (Work("mm", "linear", "matmul", 2 * m * k, Matmul(m, 1, k), (0, 1), m),)


def _dot(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    k = args[0].numel()
    return (Work("mm", "linear", "matmul", 2 * k, Matmul(1, 1, k), (0, 1), 1),)


def _grouped(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    """Rows [visits, k], each with the matrix [k, n] of its expert: as many products as visits."""
    visits, k = args[0].shape[-2:]
    experts, n = args[1].shape[0], args[1].shape[-1]
    reached = min(experts, visits)
    shape = Matmul(visits / reached, n, k, reached)
    return (Work("grouped_mm", "linear", "matmul", 2 * visits * k * n, shape, (0, 1), visits),)


def _solve(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    """X of A X = B, A [m, m] a triangle: no product, but what comes back to A is one, of B's gradient and X."""
    m, n, groups = args[0].shape[-1], out.shape[-1], prod(out.shape[:-2])
    return (Work("solve", "attention", operands=(0,), back=2 * groups * m * n * m),)


def _convolution(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    x, weight, transposed = args[0], args[1], args[6]
    each = prod(weight.shape[1:])
    flops = 2 * (x if transposed else out).numel() * each
    depthwise = args[8] > 1 and args[8] == x.shape[1]
    places = (x if transposed else out).numel() // (weight.shape[0])
    shape = Matmul(places, weight.shape[0], each)
    function: Function = "conv1d" if depthwise and weight.ndim == 3 else "convolution"
    return (Work("conv", "linear", function, flops, shape, (0, 1)),)


def _attention(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    """One kernel for softmax(q k') v, told as the three ops that it is made of."""
    q, k, v = args[:3]
    batch, heads, queries, width = q.shape
    kv_heads, keys, d_value = k.shape[1], k.shape[2], v.shape[-1]
    causal = bool(kwargs.get("is_causal", _is_causal(args)))
    shape = Attend(batch * kv_heads, heads // kv_heads, queries, keys, width, d_value, causal)
    pairs = 2 * batch * heads * queries * keys
    return (
        Work("scores", "attention", "scores", pairs * width, shape, (0, 1)),
        Work("softmax", "elementwise", "softmax"),
        Work("values", "attention", "values", pairs * d_value, shape, (0, 2)),
    )


def _is_causal(args: tuple[Any, ...]) -> bool:
    """The flag where it is given by its place: behind the probability of dropout."""
    return any(each is True for each in args[3:])


def _gather(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    return (Work("embedding", "gather", "gather", looked_up=out.numel()),)


PRODUCTS: dict[str, Rule] = {
    "aten.mm": _mm,
    "aten.bmm": _mm,
    "aten.addmm": _addmm,
    "aten.baddbmm": _addmm,
    "aten.addbmm": _addmm,
    "aten._addmm_activation": _addmm,
    "aten.mv": _mv,
    "aten.dot": _dot,
    "aten.vdot": _dot,
    "aten._grouped_mm": _grouped,
    "transformers.grouped_mm_fallback": _grouped,
    "aten.linalg_solve_triangular": _solve,
    "aten.convolution": _convolution,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten._scaled_dot_product_flash_attention": _attention,
    "aten._scaled_dot_product_efficient_attention": _attention,
    "aten._scaled_dot_product_cudnn_attention": _attention,
    "aten.embedding": _gather,
}
"""Operation -> its rule, of those that multiply or look up."""

FUNCTIONS: dict[str, Function] = {
    "aten.add": "add",
    "aten.sub": "add",
    "aten.mul": "scale",
    "aten.div": "scale",
    "aten.gelu": "gelu",
    "aten.relu": "relu",
    "aten.silu": "silu",
    "aten.tanh": "tanh",
    "aten.sigmoid": "sigmoid",
    "aten.native_layer_norm": "layernorm",
    "aten._fused_rms_norm": "other",
    "aten.native_batch_norm": "batchnorm",
    "aten._native_batch_norm_legit": "batchnorm",
    "aten.clone": "copy",
    "aten._to_copy": "copy",
    "aten.copy": "copy",
    "aten.cat": "copy",
    "aten.index": "copy",
    "aten.gather": "copy",
    "aten.topk": "route",
    "aten.avg_pool2d": "pool",
    "aten.max_pool2d_with_indices": "pool",
    "aten._adaptive_avg_pool2d": "pool",
}
"""Operation -> what its one kernel computes, of those without products; what is not here is `other`."""
NORMS = ("layernorm", "rmsnorm", "batchnorm")

_MULTIPLIES = re.compile(
    r"(?:^|_)(?:mm|bmm|addmm|matmul|linear|bilinear|trilinear|dot|einsum|rnn|lstm|gru|fft|linalg|dist|cdist|conv|"
    r"attention|transformer|inverse|cholesky|svd|qr|geqrf|lstsq|solve|matrix_exp)(?:_|\d|$)"
)
"""Words in the names of operations that multiply rows with rows: recurrent networks, Fourier transforms, distances of
all pairs, fused layers. One without a rule here would count as nothing, as it does for PyTorch's own counter."""
_DOES_NOT = ("linalg_vector_norm", "linalg_cross")
_DOES_NOT += ("upsample_linear1d", "upsample_bilinear2d", "_upsample_bilinear2d_aa")
NAMESPACES = ("aten", "prims", "prim", "transformers", "torchvision")
"""Where operations are from; what others compute, nobody knows."""


def works(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    """The ops that stand for one call. name: `namespace.operation`, without an overload and a final `_`.

    Errors: Refused for an operation whose products are not counted.
    """
    rule = PRODUCTS.get(name)
    if rule is not None:
        return rule(args, kwargs, out)
    space, _, operation = name.partition(".")
    if space not in NAMESPACES or (_MULTIPLIES.search(operation) and operation not in _DOES_NOT):
        raise Refused("--traced", "operations whose products are counted", name)
    function = FUNCTIONS.get(name, "other")
    kind: Kind = "norm" if function in NORMS else "elementwise"
    return (Work(operation, kind, function),)
