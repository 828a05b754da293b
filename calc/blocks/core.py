"""The core of every attention: scores, softmax, weighted values, with what each of them moves.

As three kernels they write the scores and the weights [batch, n_heads, seq, keys] to memory and read them again; as one
(Dao et al. 2022, arXiv:2205.14135) they do not: `from_chain` and `to_chain` say what then stays on the chip.
"""

from __future__ import annotations

from typing import Literal

from calc.functions import Attend
from calc.op import Cache, Moves, Op, Weight
from calc.sizes import Size


def matrix(shape: Attend) -> Size:
    """Elements of the scores of all heads, hidden ones too."""
    return shape.groups * shape.heads * shape.queries * shape.keys


def scores(shape: Attend, flops: Size, cached: Size, cache: Cache | None = None, kept: Size = 0) -> Op:
    """q [groups, heads * queries, d_head] against k [groups, keys, d_head].

    cached: how many keys of each group stand in the cache. kept: of each token of each group, elements of keys and
    values that go into it.
    """

    def moves() -> Moves:
        queries, all_of_it = shape.groups * shape.heads * shape.queries * shape.d_head, matrix(shape)
        return Moves(
            queries + shape.groups * (shape.keys - cached) * shape.d_head,
            all_of_it,
            cache_reads=shape.groups * cached * shape.d_head,
            cache_writes=shape.groups * (shape.keys - cached) * kept,
            to_chain=all_of_it,
        )

    return Op("scores", "attention", "attention", flops, cache=cache, function="scores", shape=shape, moves=moves)


def softcap(shape: Attend) -> Op:
    """c * tanh(scores / c)."""
    return _over("softcap", shape, (), 0, 0)


def softmax(shape: Attend, weights: tuple[Weight, ...] = (), *, bias: Size = 0, fresh: Size = 0) -> Op:
    """Over the keys. weights: sinks. bias: elements added to the scores before; fresh: those made right ahead."""
    return _over("softmax", shape, weights, bias, fresh)


def _over(
    function: Literal["softcap", "softmax"], shape: Attend, weights: tuple[Weight, ...], bias: Size, fresh: Size
) -> Op:
    def moves() -> Moves:
        one = matrix(shape)
        return Moves(one + bias + fresh, one, from_chain=one + fresh, to_chain=one)

    return Op(function, "elementwise", "attention", weights=weights, function=function, moves=moves)


def values(shape: Attend, flops: Size, cached: Size, *, again: bool = False) -> Op:
    """Weights [groups, heads * queries, keys] against v [groups, keys, d_value].

    again: the values are (part of) the keys, which one kernel reads only once.
    """

    def moves() -> Moves:
        new = shape.groups * (shape.keys - cached) * shape.d_value
        all_of_it = matrix(shape)
        return Moves(
            all_of_it + new,
            shape.groups * shape.heads * shape.queries * shape.d_value,
            cache_reads=0 if again else shape.groups * cached * shape.d_value,
            from_chain=all_of_it + (new if again else 0),
        )

    return Op("values", "attention", "attention", flops, function="values", shape=shape, moves=moves)
