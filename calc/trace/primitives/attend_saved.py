"""What autograd keeps of attention's core: of scores, softmax and weighted values written out, or in one kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from calc.sizes import Size, at_least, exact_div, is_exactly
from calc.spec import Shaw
from calc.trace.tape import Storage, Tape


@dataclass(frozen=True, slots=True)
class Square:
    """Sizes of an attention: `rows` heads of all sequences (`kv_rows` for keys and values), each of seq queries over
    `keys` keys. heads: of one sequence."""

    batch: Size
    heads: Size
    rows: Size
    kv_rows: Size
    seq: Size
    keys: Size
    d_key: Size
    d_value: Size


class Vectors(NamedTuple):
    """The projected vectors of `rows` distances, which queries or keys are multiplied with. each: whether each sequence
    has its own, all of which are counted."""

    rows: Size
    storage: Storage
    each: bool = False


@dataclass(frozen=True, slots=True)
class Scores:
    """What becomes of scores where they are written out, and what a flash kernel is told of them.

    wide: the softmax is computed in fp32 whatever they are in. softcap: they pass a tanh. sinks: one more column.
    shaw: keys, and perhaps values, have a vector for every distance. distances: the projected vectors of all distances,
    from which scores beside those of keys are made (Transformer-XL). by_query, by_key: those of distances that queries,
    or keys, are multiplied with, of which each pair's are looked up (DeBERTa).
    mask: how many numbers that are added to scores a kernel is given, made anew in every layer, or once for all
    (common_mask); 0: none. of_heads: whether each head has its own, and not all one. hides: 1 where there are some.
    bias_grad: whether they are trained; covered: then how many a causal mask covers.
    by_head: queries lie head by head and not token by token, and so does what a kernel makes of them.
    apart: none of PyTorch's kernels is asked (blocks of a sequence).
    trained: whether tables and sinks are. repeated: whether PyTorch's kernels know which heads share keys; of one head
    given to all they know nothing.
    """

    wide: bool = True
    softcap: bool = False
    sinks: bool = False
    shaw: Shaw | None = None
    mask: Size = 0
    hides: Size = 0
    bias_grad: bool = False
    covered: Size = 0
    by_head: bool = False
    distances: Vectors | None = None
    by_query: Vectors | None = None
    by_key: Vectors | None = None
    trained: bool = True
    repeated: bool = True
    apart: bool = False
    common_mask: bool = False
    of_heads: bool = False

    def fusible(self, compiled: bool) -> bool:
        """Whether one kernel knows such scores: PyTorch's own plain ones, those of compilers and stacks caps and sinks
        too (FlexAttention; cuDNN in Transformer Engine from 2.8 on), and none vectors of distances."""
        plain = not (self.softcap or self.sinks)
        of_distances = self.distances or self.by_query or self.by_key
        return (compiled or plain) and not (self.shaw or of_distances or self.apart)


def saved_by_attention(tape: Tape, q: Storage, k: Storage, v: Storage, square: Square, scores: Scores) -> Storage:
    """softmax(q k') v.

    A flash kernel keeps queries, keys, values, its result and a number for every query (Dao et al. 2022,
    arXiv:2205.14135, section 3.1), and the mask that it is given. On the CPU it has no dropout, and no heads of values
    narrower than those of keys: there attention is written out after all.
    """
    s = tape.settings
    values = square.rows * square.seq * square.d_value
    with tape.region("attention", q, k, v):
        if s.execution == "eager" or not scores.fusible(s.fused):
            return _written_out(tape, q, k, v, square, scores)
        if not is_exactly(scores.covered, 0):
            tape.keep(Storage(scores.covered, "bool", False, "none"), "what is hidden")
        unlike = not is_exactly(square.d_key, square.d_value)
        falls_back = s.device == "cpu" and (s.dropout or scores.bias_grad or unlike)
        if falls_back or not (scores.repeated or s.fused):
            # PyTorch's fallback scales queries and keys first, and computes in fp32.
            q, k, wide_v = tape.like(q, dtype="fp32"), tape.like(k, dtype="fp32"), tape.cast(v, "fp32")
            if not scores.repeated:
                several = at_least(square.batch, 2)
                k = _laid_for_heads(tape, k, square.rows * square.keys * square.d_key, several, q.grad)
                wide_v = _laid_for_heads(
                    tape, wide_v, square.rows * square.keys * square.d_value, several, q.grad or k.grad
                )
                square = replace(square, kv_rows=square.rows)
            return tape.cast(_written_out(tape, q, k, wide_v, square, Scores(), casts=False), v.dtype)
        with tape.at("scores"):
            read = s.dtype if s.autocast else q.dtype
            if not is_exactly(square.kv_rows, square.rows):
                k = _masked_copy(tape, k, square.rows * square.keys * square.d_key, scores.hides, read)
                v = _masked_copy(tape, v, square.rows * square.keys * square.d_value, scores.hides, read)
            if not any(each.grad for each in (q, k, v)) and not scores.bias_grad:
                return Storage(values, read, False, "tensor")
            for tensor, role in ((q, "queries"), (k, "keys"), (v, "values")):
                tape.keep(tape.cast(tensor, read), role)
            if scores.common_mask:
                tape.keep_common("mask of all layers", "mask", scores.mask, read)
            elif not is_exactly(scores.mask, 0):
                tape.keep(Storage(scores.mask, read, scores.bias_grad, "tensor" if scores.of_heads else "none"), "mask")
            out = Storage(values, read, True, "tensor")
            sums = Storage(square.rows * square.seq, "fp32", False, "tensor")
            for tensor, role in ((out, "result"), (sums, "log-sum-exp")):
                tape.keep(tensor, role)
                tape.note_result(tensor, role)
        if scores.by_head and not is_exactly(square.seq, 1) and not is_exactly(square.heads, 1):
            # Laid token by token for the projection that follows.
            out = tape.like(out)
        return out


def _written_out(
    tape: Tape, q: Storage, k: Storage, v: Storage, square: Square, how: Scores, *, casts: bool = True
) -> Storage:
    """Scores, softmax, dropout and weighted values, each an operation of its own."""
    if not is_exactly(square.kv_rows, square.rows):
        # Keys and values are repeated for every head that shares them.
        k = Storage(square.rows * square.keys * square.d_key, k.dtype, k.grad, "tensor")
        v = Storage(square.rows * square.keys * square.d_value, v.dtype, v.grad, "tensor")
    queries, keys = q, k
    if not is_exactly(square.batch, 1) and not is_exactly(square.heads, 1):
        # Matrices of several sequences and heads that lie between others are laid together first: copies of their own,
        # and one more for each product that reads them.
        q, k, v = (tape.like(x) if x.base or x in tape.elsewhere or x in tape.saved else x for x in (q, k, v))
        queries, keys = tape.like(queries), tape.like(keys)
    with tape.at("scores"):
        scores = tape.product(q, k, square.rows * square.seq * square.keys, casts=casts)
    if how.shaw is not None:
        scores = _against_each(tape, "relative_key", queries, square, square.d_key, scores, how.trained)
    if how.distances is not None:
        scores = tape.like(scores, _of_distances(tape, queries, how.distances, square))
    if how.by_query is not None:
        scores = tape.like(scores, _looked_up(tape, "query_distances", queries, how.by_query, square))
    if how.by_key is not None:
        scores = tape.like(scores, _looked_up(tape, "key_distances", keys, how.by_key, square))
    if how.softcap:
        with tape.at("softcap"):
            scores = tape.reads_result(scores)
    with tape.at("softmax"):
        if how.sinks:
            with_sinks = scores.grad or how.trained
            scores = Storage(square.rows * square.seq * (square.keys + 1), scores.dtype, with_sinks, "tensor")
        weights = tape.reads_result(scores, "fp32" if how.wide else None)
        if how.sinks:
            weights = _without_sinks(weights, square.rows * square.seq * square.keys, v.dtype)
        weights = tape.drop(tape.cast(weights, v.dtype))
    with tape.at("values"):
        values = tape.product(weights, v, square.rows * square.seq * square.d_value, casts=casts)
    if how.shaw is not None and how.shaw.values:
        return _against_each(tape, "relative_value", weights, square, square.d_value, values, how.trained)
    return values


def _without_sinks(weights: Storage, elements: Size, dtype: str) -> Storage:
    """All columns but the last: a view, unless a cast copies them."""
    part = weights.part(elements)
    return part if dtype == weights.dtype else Storage(elements, dtype, weights.grad, weights.split)


def _against_each(
    tape: Tape, name: str, x: Storage, square: Square, width: Size, to: Storage, trained: bool
) -> Storage:
    """x times a table of its own for each query, added to `to`."""
    with tape.at(name):
        table = Storage(square.seq * square.keys * width, tape.settings.stream, trained, "none")
        return tape.like(to, tape.product(x, table, to.elements))


def _of_distances(tape: Tape, q: Storage, of: Vectors, square: Square) -> Storage:
    """Scores of all distances, of which each key's are looked up; sequences have copies of the vectors, if several."""
    vectors, distances = of.storage, exact_div(of.rows, square.batch) if of.each else of.rows
    with tape.at("distances"):
        if not is_exactly(square.batch, 1) and not of.each:
            vectors = Storage(square.rows * distances * square.d_key, vectors.dtype, vectors.grad, "tensor")
        made = tape.product(tape.like(q), vectors, square.rows * square.seq * distances)
        return Storage(square.rows * square.seq * square.keys, made.dtype, made.grad, "tensor")


def _looked_up(tape: Tape, name: str, x: Storage, vectors: Vectors, square: Square) -> Storage:
    """Queries or keys against the vectors of distances; of the products each pair's are looked up, by numbers that all
    layers share. Several sequences of several heads have copies of the vectors."""
    read = vectors.storage
    with tape.at(name):
        if not is_exactly(square.batch, 1) and not is_exactly(square.heads, 1):
            read = Storage(square.rows * vectors.rows * square.d_key, read.dtype, read.grad, "tensor")
        made = tape.product(x, read, square.rows * square.seq * vectors.rows)
        if made.grad:
            tape.keep(made, "input")
            tape.keep_common("places of distances", "places", square.seq * square.keys, "int64")
        return Storage(square.rows * square.seq * square.keys, made.dtype, made.grad, "tensor")


def _laid_for_heads(tape: Tape, x: Storage, elements: Size, several: Size, saved: bool) -> Storage:
    """Keys or values of one head as the others read them: of several sequences a copy, of one a view.

    several: 1 where there are several sequences. kept: whether the product that reads them keeps them.
    """
    if is_exactly(several, 0):
        return x
    if saved and not isinstance(several, int):
        tape.keep(Storage(x.elements * (1 - several), x.dtype, x.grad, x.split, heads=x.heads), "shared among heads")
    return Storage(elements * several, x.dtype, x.grad, "tensor")


def _masked_copy(tape: Tape, x: Storage, elements: Size, hides: Size, read: str) -> Storage:
    """Keys or values for every head, where a mask rules out a kernel that shares them. hides: 1 where there is one.
    read: the format that a kernel reads them in, and keeps."""
    if is_exactly(hides, 0):
        return x
    if not isinstance(hides, int) and x.base is None:
        tape.keep(Storage(x.elements * (1 - hides), read, x.grad, x.split, heads=x.heads), "shared among heads")
    return Storage(elements * hides, x.dtype, x.grad, "tensor")
