"""Bounds on what attention must move, and the length from which flash moves or holds less than standard does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from calc.attention.cost import Cost
from calc.attention.flash import flash
from calc.attention.shape import AttentionShape
from calc.attention.standard import standard
from calc.attention.tiles import Blocks

if TYPE_CHECKING:
    from sympy import Expr

_EACH = 256
_LONGEST = 2**17
Measure = Callable[[Cost], Any]


@dataclass(frozen=True, slots=True)
class Bound:
    """An order of growth in elements moved for one head. n: tokens, d: width of a head, m: elements of SRAM.

    written: the order as people write it. order: the same as a sympy expression in positive n, d and m.
    """

    name: str
    written: str
    holds: str
    source: str

    @property
    def order(self) -> Expr:
        """The order, to be evaluated, differentiated or divided by another."""
        from sympy import parse_expr, symbols

        return parse_expr(self.written, {str(symbol): symbol for symbol in symbols("n d m", positive=True)})


_PAPER = "Dao et al. 2022, arXiv:2205.14135"
BOUNDS = (
    Bound("standard", "n*d + n**2", "Theta, for any m", f"{_PAPER}, theorem 2"),
    Bound("flash", "n**2*d**2/m", "Theta, d <= m <= n d", f"{_PAPER}, theorem 2"),
    Bound("any exact algorithm", "n**2*d**2/m", "no o(...) for all m in d <= m <= n d", f"{_PAPER}, proposition 3"),
    Bound("reading and writing once", "n*d", "Omega, for any m", "q, k, v and the output must pass once"),
)
"""What is known of the traffic of one head's forward pass."""


FLASH_CONSTANTS = (4.0, 10.0)
"""Elements moved over n^2 d^2 / m, forward, stay between these for 8 d <= m <= n d and tiles of few columns, with as
many rows as leave room for their keys and values: below 8 d there is no room for a query, a key, a value and the
output's sums twice."""


@dataclass(frozen=True, slots=True)
class Crossover:
    """From which length on flash needs less than standard, at every longer length that was tried.

    length: None: from none. standard, flash: what each needs for a pair of tokens of one head at the longest length.
    """

    length: int | None
    standard: float
    flash: float


def crossovers(shape: AttentionShape, blocks: Blocks, measures: Sequence[Measure]) -> list[Crossover]:
    """One for each measure of a cost, with seq = keys, no padding, and tiles of `blocks`, at every one of `lengths`."""
    shapes = [over_sequence(shape, length) for length in lengths()]
    costs = [(standard(each), flash(each, blocks)) for each in shapes]
    return [crossover(shape, [(measure(one), measure(other)) for one, other in costs]) for measure in measures]


def lengths() -> list[int]:
    """Those that are tried: every one up to 256, then 5 % apart up to 131,072."""
    found = list(range(1, _EACH + 1))
    while found[-1] < _LONGEST:
        found.append(min(found[-1] * 21 // 20, _LONGEST))
    return found


def over_sequence(shape: AttentionShape, length: int) -> AttentionShape:
    """The same over a whole sequence of `length` tokens."""
    return replace(shape, seq=length, keys=length, lengths=None)


def crossover(shape: AttentionShape, needs: Sequence[tuple[Any, Any]]) -> Crossover:
    """From what standard and flash need at each of `lengths`."""
    tried = lengths()
    lost = [length for length, (one, other) in zip(tried, needs, strict=True) if other >= one]
    behind = tried.index(lost[-1]) + 1 if lost else 0
    pairs = shape.batch * shape.heads * _LONGEST**2
    return Crossover(tried[behind] if behind < len(tried) else None, *(need / pairs for need in needs[-1]))
