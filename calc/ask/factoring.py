"""Formulas as people write them: what terms have in common stands once, in front of a bracket.

Only rules that cost time in proportion to the terms: no search for roots, and no comparison of minima and maxima, which
sympy makes anew whenever it builds one of several arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

FREE = ("context", "seq")
"""Lengths of which one more may stand in a bracket: (context + 1)."""


class Term(NamedTuple):
    """coefficient * product of base ** exponent."""

    coefficient: Any
    powers: Mapping[Any, Any]

    def over(self, powers: Mapping[Any, Any], coefficient: Any = 1) -> Term:
        """This term divided by another."""
        left = {base: n - powers.get(base, 0) for base, n in self.powers.items()}
        return Term(self.coefficient / coefficient, {base: n for base, n in left.items() if n != 0})


def tidy(expression: Any) -> Any:
    """The same expression with what belongs to one kind of layer gathered behind its number of layers.

    What several kinds of layers have in common stands once, behind the sum of their numbers.
    """
    import sympy

    hidden: dict[Any, Any] = {}
    plain = sympy.expand(_without_extremes(expression, hidden))
    layers = sorted((s for s in plain.free_symbols if s.name.startswith("n_layers")), key=str)
    gathered = sympy.collect(plain, layers, evaluate=False)
    rest = gathered.pop(sympy.S.One, sympy.S.Zero)
    counts: dict[Any, Any] = {}
    for count, terms in gathered.items():
        for term in sympy.Add.make_args(terms):
            counts[term] = counts.get(term, 0) + count
    behind: dict[Any, Any] = {}
    for term, count in counts.items():
        behind.setdefault(count, []).append(term)
    products = [count * factored(terms) for count, terms in behind.items()]
    whole = _in_front([*products, *sympy.Add.make_args(factored(sympy.Add.make_args(rest)))])
    return whole.xreplace({stand: _extreme(node) for node, stand in hidden.items()})


def factored(terms: Any) -> Any:
    """A sum of `terms` with the symbol that most of them share in front of a bracket, and so on within."""
    return _factored([_term(term) for term in terms if term != 0])


def _factored(terms: list[Term]) -> Any:
    """Sums of products, most shared symbols outermost."""
    import sympy

    if not terms:
        return sympy.S.Zero
    front, inside = _common(terms)
    if len(inside) == 1:
        return _product(inside[0], front)
    return _times(front, _bracket(inside))


def _bracket(terms: list[Term]) -> Any:
    """A sum that has nothing in common."""
    import sympy

    for name in FREE:
        again = _one_more(terms, name)
        if again is not None:
            return again
    seen: dict[Any, int] = {}
    for term in terms:
        for base, n in term.powers.items():
            if n.is_positive:
                seen[base] = seen.get(base, 0) + 1
    most = max(seen, key=lambda base: (seen[base], str(base)), default=None)
    if most is None or seen[most] < 2:
        return sympy.Add(*(_product(term) for term in terms))
    own = [term for term in terms if _holds(term, most)]
    others = [term for term in terms if not _holds(term, most)]
    return sympy.Add(_factored(own), _factored(others))


def _holds(term: Term, base: Any) -> bool:
    return base in term.powers and term.powers[base].is_positive


def _one_more(terms: list[Term], name: str) -> Any:
    """(length + 1) * what stands both behind the length and alone, and the rest; None where nothing does."""
    import sympy

    length = next((base for term in terms for base in term.powers if str(base) == name), None)
    if length is None:
        return None
    alone = {_key(term): term for term in terms if length not in term.powers}
    both = [term.over({length: 1}) for term in terms if term.powers.get(length) == 1]
    both = [term for term in both if _key(term) in alone]
    if not both:
        return None
    keys = {_key(term) for term in both}
    rest = [
        term
        for term in terms
        if _key(term) not in keys and not (term.powers.get(length) == 1 and _key(term.over({length: 1})) in keys)
    ]
    return sympy.Add(_times(Term(sympy.S.One, {length + 1: sympy.S.One}), _factored(both)), _factored(rest))


def _in_front(products: list[Any]) -> Any:
    """A sum with what all of its products share in front."""
    import sympy

    terms = [_term(product) for product in products if product != 0]
    if not terms:
        return sympy.S.Zero
    front, inside = _common(terms)
    if len(inside) == 1:
        return _product(inside[0], front)
    return _times(front, sympy.Add(*(_product(term) for term in inside)))


def _common(terms: list[Term]) -> tuple[Term, list[Term]]:
    """What all terms share, and what is left of each."""
    import sympy
    from sympy.core.numbers import igcd, ilcm

    first, *others = terms
    powers = dict(first.powers)
    for term in others:
        powers = {base: min(n, term.powers[base]) for base, n in powers.items() if base in term.powers}
    numbers = [term.coefficient for term in terms]
    shared = sympy.S.One
    if all(number.is_Rational for number in numbers):
        shared = sympy.Rational(igcd(0, *(n.p for n in numbers)), ilcm(1, *(n.q for n in numbers)))
        shared = -shared if all(number < 0 for number in numbers) else shared
    return Term(shared, powers), [term.over(powers, shared) for term in terms]


def _term(expression: Any) -> Term:
    coefficient, rest = expression.as_coeff_Mul()
    return Term(coefficient, {base: n for base, n in rest.as_powers_dict().items() if base != 1})


def _key(term: Term) -> Any:
    return term.coefficient, frozenset(term.powers.items())


def _product(term: Term, front: Term | None = None) -> Any:
    """A term as sympy has it, times another."""
    import sympy

    found = sympy.Mul(term.coefficient, *(base**n for base, n in term.powers.items()))
    return found if front is None else _times(front, found)


def _times(front: Term, inside: Any) -> Any:
    """A product with a bracket, into which sympy would multiply a number."""
    import sympy
    from sympy.core.mul import _keep_coeff

    powers = sympy.Mul(*(base**n for base, n in front.powers.items()), inside)
    return _keep_coeff(front.coefficient, powers)


def _without_extremes(expression: Any, hidden: dict[Any, Any]) -> Any:
    """The expression with a letter for every minimum, maximum and rounding, so that none is compared again."""
    import sympy

    if isinstance(expression, sympy.Max | sympy.Min | sympy.floor | sympy.ceiling):
        if expression not in hidden:
            hidden[expression] = sympy.Dummy(f"extreme{len(hidden)}", positive=True)
        return hidden[expression]
    if not expression.args or not expression.has(sympy.Max, sympy.Min, sympy.floor, sympy.ceiling):
        return expression
    return expression.func(*(_without_extremes(arg, hidden) for arg in expression.args))


def _extreme(node: Any) -> Any:
    """A minimum, maximum or rounding whose arguments are tidy."""
    return node.func(*(tidy(arg) for arg in node.args), evaluate=False)
