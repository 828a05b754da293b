"""The formula behind a number: the same tree read with symbols, then the numbers put in, then the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from calc.ask import registry
from calc.ask.estimate import Estimate, estimate
from calc.ask.factoring import tidy
from calc.ask.parts import WHOLE, of_part
from calc.ask.quantity import Quantity
from calc.blocks.build import source_length
from calc.errors import Refused
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.resizing import symbolic
from calc.spec.run import LOAD_SIZES, Run, exact_run
from calc.spec.sparse_blocks import blocks_attended
from calc.spec.traced import EXACT, Traced
from calc.symbols import describe, place


@dataclass(frozen=True, slots=True)
class Explanation:
    """A quantity's closed formula beside its value.

    formula: a sympy expression in the symbols of `values`. terms: (name, expression, value), which sum to it.
    """

    estimate: Estimate
    formula: Any
    terms: tuple[tuple[str, Any, Size], ...]
    values: Mapping[Any, int]

    def numbers(self) -> str:
        """The formula with the value of every symbol in its place, as Python would read it."""
        from sympy.printing.str import StrPrinter

        values = self.values

        class WithNumbers(StrPrinter):
            def _print_Symbol(self, expr: Any) -> str:  # noqa: N802 (sympy's name)
                return str(values[expr])

        return WithNumbers().doprint(self.formula)

    def latex(self) -> str:
        """The formula in LaTeX, with the field's letters for the symbols."""
        import sympy

        names = {symbol: describe(symbol.name).latex for symbol in self.values}
        return sympy.latex(self.formula, symbol_names=names)


def explain(spec: ModelSpec, quantity: str, run: Run | None = None, *, part: str = WHOLE, **words: Any) -> Explanation:
    """The formula of a quantity of `spec`, or of the part at that path alone, and the exact value it must give.

    run, words: as for `estimate`. Its sizes (batch, seq, context) become symbols too.
    Errors: as `estimate`, and Refused for a size that is an array, and for texts so long that they attend to blocks.
    ArithmeticError if formula and value ever differ, which is a fault of this program.
    """
    import sympy

    if isinstance(spec, Traced):
        return _without_formula(spec, quantity, run, part, words)
    entry, run = of_part(registry.find(quantity), part), exact_run(run, **words)
    for name in LOAD_SIZES:
        if not isinstance(getattr(run, name), int | None):
            raise Refused(name, "one whole number", getattr(run, name))
    if run.source_seq is None and "source_seq" in entry.uses and _reads_as_many(spec):
        run = run.changed(source_seq=run.seq)  # a letter of its own
    value = estimate(spec, quantity, run, part=part, **words)
    if "seq" in entry.uses:
        _refuse_blocks(spec, run)
    symbolic_spec, values = symbolic(spec)
    symbols: dict[str, Any] = {
        name: sympy.Symbol(name, positive=True)
        for name in LOAD_SIZES
        if name in entry.uses and getattr(run, name) is not None
    }
    values |= {symbol: getattr(run, name) for name, symbol in symbols.items()}
    rank = _of_one_rank(spec, entry, run).changed(**symbols)
    widths = entry.widths(run) if entry.widths is not None else {}
    if entry.in_widths is not None and widths:
        named = {name: sympy.Symbol(name, positive=True) for name in widths}
        values |= {named[name]: width for name, width in widths.items()}
        counted = entry.in_widths(symbolic_spec, rank, named)
    else:
        counted = entry.compute(symbolic_spec, rank)
    terms = {name: tidy(sympy.sympify(term)) for name, term in counted.items()}
    formula = next(iter(terms.values())) if len(terms) == 1 else tidy(sympy.Add(*terms.values()))
    # All at once: one symbol after another, sympy compares the arguments of every Max anew each time.
    given = formula.xreplace({symbol: sympy.sympify(number) for symbol, number in values.items()})
    if not _same(given, value.value):
        raise ArithmeticError(f"the formula of {quantity} gives {given}, the count {value.value}")
    shown = sorted(formula.free_symbols, key=lambda symbol: (place(symbol.name), symbol.name))
    used = {symbol: values[symbol] for symbol in shown}
    there = {name: term for name, term in terms.items() if term != 0}
    # Where the largest of several sums is told, the formula is one term and the number is not.
    own = value.terms if there.keys() <= value.terms.keys() else dict.fromkeys(there, value.value)
    rows = tuple((name, term, own[name]) for name, term in there.items())
    return Explanation(value, formula, rows, used)


def _refuse_blocks(spec: ModelSpec, run: Run) -> None:
    """A letter does not tell whether a text is long, and its formula is that of a short one."""
    if found := blocks_attended(spec.layers, run.seq):
        expected = f"at most {found.longest} tokens: longer texts attend to blocks, of which there is no formula"
        raise Refused("seq", expected, run.seq)


def _without_formula(spec: Traced, quantity: str, run: Run | None, part: str, words: dict[str, Any]) -> Explanation:
    """A traced model's number, which is its own formula, and says so."""
    import sympy

    value = estimate(spec, quantity, run, part=part, **words)
    value = replace(value, source=f"{value.source}; {EXACT}")
    terms = tuple((name, sympy.sympify(term), term) for name, term in value.terms.items())
    return Explanation(value, sympy.sympify(value.value), terms, {})


def _same(given: Any, count: Size) -> bool:
    """Whether a formula gives the count: exactly, or as closely as floats do where experts are an expectation."""
    return given == count or (given.is_Float and abs(given - count) <= 1e-10 * count)


def _of_one_rank(spec: ModelSpec, entry: Quantity, run: Run) -> Run:
    """The same question of the kind of rank that holds the most, which numbers tell and symbols do not."""
    if entry.name != "memory.total":
        return run
    from calc.memory.totals import memory_ranks, worst

    return run.changed(rank=worst(memory_ranks(spec, run)).stage)


def _reads_as_many(spec: ModelSpec) -> bool:
    """Whether a source is as long as seq unless another length is asked for."""
    return source_length(spec, 1) == 1 and source_length(spec, 2) == 2
