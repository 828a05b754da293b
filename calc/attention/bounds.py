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
"""Elements moved over n^2 d^2 / m, forward, stay between these where `model_blocks` cuts, for 8 d <= m <= n d: below
8 d there is no room for a query, a key, a value and the output's sums twice."""


def model_blocks(d_head: int, elements: int) -> Blocks:
    """Tiles for `elements` of on-chip memory: few columns, and as many rows as leave room for their keys and values.

    Rows need d for the query, d for the output's sums, 2 numbers and a score for each column.
    """
    columns = max(min(d_head // 4, elements // (16 * d_head)), 1)
    return Blocks(max((elements - 2 * columns * d_head) // (2 * d_head + columns + 2), 1), columns)


@dataclass(frozen=True, slots=True)
class Crossover:
    """From which length on flash needs less than standard, at every longer length that was tried.

    length: None: from none. standard, flash: what each needs for a pair of tokens of one head at the longest length.
    """

    length: int | None
    standard: float
    flash: float


def crossovers(shape: AttentionShape, blocks: Blocks, measures: Sequence[Measure]) -> list[Crossover]:
    """One for each measure of a cost, with seq = keys, no padding, and tiles of `blocks`.

    Tried is every length up to 256, then lengths 5 % apart up to 131,072.
    """
    lengths = list(range(1, _EACH + 1))
    while lengths[-1] < _LONGEST:
        lengths.append(min(lengths[-1] * 21 // 20, _LONGEST))
    shapes = [replace(shape, seq=length, keys=length, lengths=None) for length in lengths]
    costs = [(standard(each), flash(each, blocks)) for each in shapes]
    pairs = shape.batch * shape.heads * _LONGEST**2
    found = []
    for measure in measures:
        lost = [length for length, both in zip(lengths, costs, strict=True) if measure(both[1]) >= measure(both[0])]
        behind = lengths.index(lost[-1]) + 1 if lost else 0
        length = lengths[behind] if behind < len(lengths) else None
        found.append(Crossover(length, *(measure(cost) / pairs for cost in costs[-1])))
    return found
