"""Differential attention: what is left of one head when another is taken off it."""

from __future__ import annotations

from calc.sizes import Size, exact_div
from calc.spec import Norm
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def halves(t: Trace, v: Tensor) -> tuple[Tensor, Tensor]:
    """v [tokens, n_kv_heads * d_head] -> the same shape twice: of its first half of heads alone, and of its second."""
    parts = v.columns(exact_div(v.width, 2)), v.columns(exact_div(v.width, 2))
    first, second = (t.joined(part, part, rows=v.rows, width=v.width) for part in parts)
    return first, second


def difference(t: Trace, norm: Norm, q: Tensor, first: Tensor, second: Tensor, heads: Size) -> Tensor:
    """first, second [tokens, heads * d_head], of either half of the values, -> the same shape: of heads twice as wide
    the second half off the first, times a learned number, normed and scaled (Ye et al. 2024, equations 1 to 3)."""
    width = first.width
    both = t.joined(first, second, rows=first.rows, width=2 * width, split="tensor")
    a, b = both.columns(width), both.columns(width)
    names = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")
    weights = tuple(t.weight(f"difference.{name}", exact_div(width, heads)) for name in names)
    y = t.made(first.rows, width, a, b, weights=weights, split="tensor")
    t.op(
        "difference",
        "elementwise",
        "scale",
        (a, b),
        (y,),
        weights=weights,
        keeps=lambda tape, x, taken, queries: _saved(tape, x, taken, queries.dtype, weights[0].trainable),
        operands=(a, b, q),
    )
    y = t.norm("difference_norm", norm, y, each=exact_div(heads, 2))
    return t.scaled("difference_scale", y)


def _saved(tape: Tape, a: Storage, b: Storage, dtype: str, trained: bool) -> Storage:
    """exp(q1 k1) - exp(q2 k2) plus a constant is one number, of the queries' format, which widens nothing."""
    if trained:
        for _ in range(2):
            tape.keep(Storage(1, "fp32", False, "none"), "power of a product")
        tape.keep(b, "factor")
    if b.grad:
        tape.keep(Storage(1, dtype, False, "none"), "factor of the second half")
    return Storage(a.elements, a.dtype, a.grad or b.grad or trained, a.split)
