"""What one layer of each kind costs to mix n tokens, and what each way of decoding costs.

Vaswani et al. 2017 (arXiv:1706.03762), table 1, compares three kinds by order of growth; here each has its exact count
too, a multiply-accumulate as two, beside its order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from calc.sizes import Size, ceil_div


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a layer; ints, sympy expressions or arrays.

    n: tokens. d: width. k: kernel of a convolution. r: window of local attention (tokens seen on the left, itself
    included). b: block of block-sparse attention, the last of which may be shorter. p: length that a low-rank
    projection keeps. m: features of a kernel.
    """

    n: Size
    d: Size
    k: Size = 3
    r: Size = 256
    b: Size = 64
    p: Size = 256
    m: Size = 256


@dataclass(frozen=True, slots=True)
class LayerKind:
    """One way to mix tokens.

    flops: of the mixing alone, without the projections that all kinds share (attention: 8 * n * d^2).
    memory: elements kept beside input and output. steps: operations that must follow one another. path: the most
    layers or steps between two tokens. order, memory_order, path_order: the same as people write them.
    """

    name: str
    source: str
    flops: Callable[[Shape], Size]
    order: str
    memory: Callable[[Shape], Size]
    memory_order: str
    steps: Callable[[Shape], Size]
    path: Callable[[Shape], Size]
    path_order: str


def _one(shape: Shape) -> Size:
    return 1


def _of_features(name: str, source: str, flops: Callable[[Shape], Size]) -> LayerKind:
    """Attention whose softmax is a product of features: a sum [m, d] over the tokens stands for all of them."""
    return LayerKind(
        name,
        source,
        flops=flops,
        order="n m d",
        memory=lambda s: s.m * s.d,
        memory_order="m d",
        steps=_one,
        path=_one,
        path_order="1",
    )


LAYER_KINDS = (
    LayerKind(
        "self-attention",
        "Vaswani et al. 2017, table 1",
        flops=lambda s: 4 * s.n * s.n * s.d,
        order="n^2 d",
        memory=lambda s: s.n * s.n,
        memory_order="n^2 a head",
        steps=_one,
        path=_one,
        path_order="1",
    ),
    LayerKind(
        "recurrent",
        "Vaswani et al. 2017, table 1; Elman 1990: two d x d matrices a step",
        flops=lambda s: 4 * s.n * s.d * s.d,
        order="n d^2",
        memory=lambda s: s.d,
        memory_order="d",
        steps=lambda s: s.n,
        path=lambda s: s.n - 1,
        path_order="n",
    ),
    LayerKind(
        "convolution",
        "Vaswani et al. 2017, table 1, kernels side by side; the path is log_k(n) when dilated",
        flops=lambda s: 2 * s.k * s.n * s.d * s.d,
        order="k n d^2",
        memory=lambda s: s.k * s.d * s.d,
        memory_order="k d^2 (weights)",
        steps=_one,
        path=lambda s: ceil_div(s.n - 1, s.k - 1),
        path_order="n / k",
    ),
    LayerKind(
        "local attention",
        "Vaswani et al. 2017, table 1 (restricted); Beltagy et al. 2020 (Longformer)",
        flops=lambda s: 4 * s.n * s.r * s.d,
        order="r n d",
        memory=lambda s: s.n * s.r,
        memory_order="n r a head",
        steps=_one,
        path=lambda s: ceil_div(s.n - 1, s.r - 1),
        path_order="n / r",
    ),
    LayerKind(
        "block-sparse attention",
        "Child et al. 2019 (Sparse Transformer), strided: a block of b and every b-th token",
        flops=lambda s: 4 * s.n * (s.b + ceil_div(s.n, s.b)) * s.d,
        order="n (b + n / b) d",
        memory=lambda s: s.n * (s.b + ceil_div(s.n, s.b)),
        memory_order="n (b + n / b) a head",
        steps=_one,
        path=lambda s: 2,
        path_order="2",
    ),
    LayerKind(
        "low-rank attention",
        "Wang et al. 2020 (Linformer): keys and values projected from n to p",
        flops=lambda s: 8 * s.n * s.p * s.d,
        order="n p d",
        memory=lambda s: s.n * s.p,
        memory_order="n p a head",
        steps=_one,
        path=_one,
        path_order="1",
    ),
    _of_features(
        "linear attention",
        "Katharopoulos et al. 2020: features of a head's own width, m = d_head, without softmax",
        flops=lambda s: 4 * s.n * s.m * s.d,
    ),
    _of_features(
        "random-feature attention",
        "Choromanski et al. 2021 (Performer): queries and keys mapped to m features first",
        flops=lambda s: 8 * s.n * s.m * s.d,
    ),
)


@dataclass(frozen=True, slots=True)
class Decoding:
    """One way to choose N tokens out of K each.

    log10: of the number of continuations whose probability is looked at (K, N, B); there may be more than any number
    that can be written.
    """

    name: str
    log10: Callable[[int, int, int], float]
    order: str


DECODINGS = (
    Decoding("greedy", lambda vocab, length, beam: math.log10(vocab * length), "K N"),
    Decoding("beam", lambda vocab, length, beam: math.log10(beam * vocab * length), "B K N"),
    Decoding("exhaustive", lambda vocab, length, beam: length * math.log10(vocab), "K^N"),
)
"""Bishop & Bishop 2024, Deep Learning, section 12.3.2: K tokens in the vocabulary, N to choose, B beams."""
