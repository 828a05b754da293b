"""Number formats as kernels take them: how wide activations and matrices are read, and which peak bounds the products.

Widths include scales: DeepSeek-V3's blocks keep one in fp32 for 128 x 128 weights and for 128 activations
(arXiv:2412.19437, section 3.3.2), nvfp4 one byte for 16 elements (NVIDIA, Introducing NVFP4, 2025-06), mxfp4 and mxfp8
one byte for 32 (OCP Microscaling Formats v1.0, table 1), weights in int4 two for 128.
"""

from __future__ import annotations

from typing import NamedTuple

from calc.dtypes import BY_NAME
from calc.errors import Refused


class KernelFormat(NamedTuple):
    """peak: name in the catalogue of the peak that bounds products. factors, weights: bytes of an element of the
    activations and of the matrix as read. results: bytes of an element as written."""

    name: str
    peak: str
    factors: float
    weights: float
    results: float


FORMATS = (
    KernelFormat("fp8_block", "fp8", 1 + 4 / 128, 1 + 4 / 128**2, 2.0),
    KernelFormat("mxfp8", "fp8", 1 + 1 / 32, 1 + 1 / 32, 2.0),
    KernelFormat("nvfp4", "fp4", 0.5 + 1 / 16, 0.5 + 1 / 16, 2.0),
    KernelFormat("mxfp4_mxfp8", "fp8", 1 + 1 / 32, 0.5 + 1 / 32, 2.0),
    KernelFormat("mxfp4_weights", "bf16", 2.0, 0.5 + 1 / 32, 2.0),
    KernelFormat("int4_weights", "bf16", 2.0, 0.5 + 2 / 128, 2.0),
    KernelFormat("int8_weights", "bf16", 2.0, 1.0, 2.0),
    KernelFormat("fp8", "fp8", 1.0, 1.0, 2.0),
    KernelFormat("int8", "int8", 1.0, 1.0, 2.0),
)
"""Formats whose operands differ; of the others factors, matrices and results are as wide as `calc.dtypes` says."""

BY_FORMAT = {one.name: one for one in FORMATS}


def kernel_format(name: str) -> KernelFormat:
    """The format called `name`: one of `FORMATS`, or a plain one. Errors: Refused for any other."""
    if name in BY_FORMAT:
        return BY_FORMAT[name]
    if name not in BY_NAME:
        raise Refused("dtype", f"one of {', '.join((*BY_FORMAT, *BY_NAME))}", name)
    width = BY_NAME[name].bits / 8
    return KernelFormat(name, name, width, width, width)
