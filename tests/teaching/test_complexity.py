"""Kinds of layers: counts against what runs, paths against a search of who sees whom."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import sympy

from calc.spec.load import Load
from calc.teaching.complexity import DECODINGS, LAYER_KINDS, LayerKind, Shape

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

KINDS = {kind.name: kind for kind in LAYER_KINDS}
SHAPE = Shape(n=24, d=10, k=3, r=5, b=4, p=6, m=7)


def counted(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def test_flops_are_what_runs() -> None:
    n, d, k, p, m = SHAPE.n, SHAPE.d, SHAPE.k, SHAPE.p, SHAPE.m
    x = torch.randn(n, d)
    w = torch.randn(d, d)
    project = torch.randn(p, n)
    features = torch.randn(d, m)
    runs = {
        "self-attention": lambda: (x @ x.T) @ x,
        # One token at a time; the counter knows matrix times matrix only, so the step is a batch of one.
        "recurrent": lambda: [(row[None] @ w, row[None] @ w) for row in x],
        "convolution": lambda: torch.nn.functional.conv1d(x.T[None], torch.randn(d, d, k), padding=k // 2),
        "low-rank attention": lambda: (x @ (project @ x).T) @ (project @ x),
        "linear attention": lambda: torch.randn(n, m) @ (torch.randn(n, m).T @ x),
        "random-feature attention": lambda: (x @ features) @ ((x @ features).T @ x),
    }
    for name, run in runs.items():
        assert KINDS[name].flops(SHAPE) == counted(run), name


def test_sparse_flops_count_the_pairs_that_are_seen() -> None:
    """Local attention sees r tokens and block-sparse b + n / b; each pair costs 4 d."""
    for name in ("local attention", "block-sparse attention"):
        per_pair = KINDS[name].flops(SHAPE) // (4 * SHAPE.d)
        seen = {"local attention": SHAPE.r, "block-sparse attention": SHAPE.b + SHAPE.n // SHAPE.b}[name]
        assert per_pair == SHAPE.n * seen == KINDS[name].memory(SHAPE)


def farthest(n: int, sees: Callable[[int, int], bool]) -> int:
    """The most hops between two of n tokens in layers where i reads j if sees(i, j)."""
    worst = 0
    for start in range(n):
        reached, hops = {start}, 0
        while len(reached) < n:
            reached |= {i for i in range(n) if any(sees(i, j) for j in reached)}
            hops += 1
        worst = max(worst, hops)
    return worst


def test_paths_are_those_of_a_search() -> None:
    n, k, r, b = SHAPE.n, SHAPE.k, SHAPE.r, SHAPE.b
    assert KINDS["self-attention"].path(SHAPE) == farthest(n, lambda i, j: True)
    assert KINDS["recurrent"].path(SHAPE) == farthest(n, lambda i, j: abs(i - j) <= 1)
    # A kernel of k (a window of r) lets a token see k - 1 others on one side.
    for name, width in (("convolution", k), ("local attention", r)):
        assert KINDS[name].path(SHAPE) == farthest_left(n, width)
    assert KINDS["block-sparse attention"].path(SHAPE) == farthest(n, lambda i, j: i // b == j // b or i % b == j % b)


def farthest_left(n: int, width: int) -> int:
    """Hops for the last token to see the first, each reaching `width` tokens back, itself included."""
    position, hops = n - 1, 0
    while position > 0:
        position, hops = position - (width - 1), hops + 1
    return hops


@pytest.mark.parametrize("kind", LAYER_KINDS, ids=lambda kind: kind.name)
def test_the_order_is_that_of_the_formula(kind: LayerKind) -> None:
    """The formula divided by its order is a constant, rounding aside."""
    n, d, k, r, b, p, m = sympy.symbols("n d k r b p m", positive=True)
    formula = sympy.sympify(kind.flops(Shape(n, d, k, r, b, p, m))).replace(sympy.ceiling, lambda part: part)
    text = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", kind.order).replace("^", "**")
    order = sympy.sympify(text, locals={symbol.name: symbol for symbol in (n, d, k, r, b, p, m)})
    assert sympy.simplify(formula / order).is_number


def test_self_attention_is_the_attention_block_of_the_model() -> None:
    pairs = Load(seq=SHAPE.n).twice_pairs(None)
    assert KINDS["self-attention"].flops(SHAPE) == 2 * SHAPE.d * pairs


def test_decoding_costs() -> None:
    """Small enough to list: 3 tokens, 4 places, 2 beams."""
    assert [10 ** way.log10(3, 4, 2) for way in DECODINGS] == pytest.approx([12, 24, 81])
