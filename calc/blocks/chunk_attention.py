"""Attention of chunks of sound over what stands beside them (Gemma 3n's ears).

Source: Zhang et al. 2023 (arXiv:2303.01037); transformers 5.23, models/gemma3n/modeling_gemma3n.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from calc.blocks.surroundings import Surroundings
from calc.sizes import Size, ceil_div, is_exactly
from calc.spec import ChunkAttention
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.primitives.gather import constant
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def chunk_attention(t: Trace, spec: ChunkAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [batch * seq, d_model] -> the same, chunks of queries [batch, chunks, chunk, n_heads, d_head].

    FLOPs: 2 * batch * chunks * chunk * n_heads * d_head * (2 * keys + distances) of scores, values and distances, and
    2 * distances * d_model * n_heads * d_head to project these.
    """
    laid = _Laid(spec, load)
    q, k, v = (t.linear(f"{name}_proj", x, laid.width) for name in "qkv")
    q = _tempered(t, spec, q)
    # Nothing runs where no sequence passes.
    sinusoids = constant(t, 0 if is_exactly(load.batch, 0) else spec.distances, x.width)
    vectors = t.linear("pos_proj", sinusoids, laid.width, of="positional", split="none", inside=False)
    return t.linear("o_proj", _core(t, spec, laid, (q, k, v, vectors)), x.width)


@dataclass(frozen=True, slots=True)
class _Laid:
    """How many of everything there are, and what lies in memory so that products read it as it is."""

    spec: ChunkAttention
    load: Load

    @property
    def width(self) -> Size:
        return self.spec.n_heads * self.spec.d_head

    @property
    def chunks(self) -> Size:
        """Of one sequence, the last one filled up."""
        return ceil_div(self.load.seq, self.spec.chunk)

    @property
    def steps(self) -> Size:
        """Of all sequences, those that fill chunks up among them."""
        return self.load.batch * self.chunks * self.spec.chunk

    @property
    def pairs(self) -> Size:
        return self.spec.n_heads * self.steps * self.spec.keys

    @property
    def whole(self) -> bool:
        """Whether one chunk is all there is."""
        return is_exactly(self.load.batch, 1) and is_exactly(self.chunks, 1)

    @property
    def one_head(self) -> bool:
        return is_exactly(self.spec.n_heads, 1)

    @property
    def keys(self) -> Size:
        """Numbers of keys, as products find them: all that one chunk's are cut out of, or a copy of each chunk's."""
        spec = self.spec
        if self.whole:
            return (spec.before + self.load.seq + spec.after + spec.chunk - 1) * self.width
        return self.load.batch * self.chunks * spec.keys * self.width

    @property
    def vectors(self) -> Size:
        """Numbers of distances' vectors, of each sequence where heads lie between."""
        shared = self.one_head or is_exactly(self.load.batch, 1)
        return self.spec.distances * self.width * (1 if shared else self.load.batch)

    @property
    def result(self) -> Size:
        """Numbers that the last projection finds: a copy of what there is, or all that fills chunks up with it, where
        it is read as the product with values lays it."""
        if is_exactly(self.chunks, 1):
            read = self.one_head and (is_exactly(self.load.batch, 1) or is_exactly(self.load.seq, 1))
        else:
            read = is_exactly(self.load.batch, 1)
        return (self.steps if read else self.load.tokens) * self.width


def _tempered(t: Trace, spec: ChunkAttention, q: Tensor) -> Tensor:
    """q times one number, a buffer, and the softplus of a trained number for each of a head's."""
    weight = t.weight("per_dim_scale", spec.d_head)
    y = t.made(q.rows, q.width, q, weights=(weight,), split=q.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        stream = tape.settings.stream
        if read.grad:
            tape.keep(Storage(1, stream, False, "none"), "scale")
        soft = tape.like(Storage(spec.d_head, stream, weight.trainable, "none"))
        return tape.times(tape.like(read), soft)

    t.op("query_scale", "elementwise", "scale", (q,), (y,), weights=(weight,), keeps=keeps)
    return y


def _core(t: Trace, spec: ChunkAttention, laid: _Laid, read: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
    """Scores of keys and of distances, cap, softmax in fp32 and weighted values of (q, k, v, vectors of distances),
    each an operation of its own."""
    q, k, v, vectors = read
    rows, each = spec.n_heads * laid.steps, laid.load.batch * laid.chunks * spec.n_heads
    shape = Matmul(spec.chunk, spec.keys, spec.d_head, each, weighed=False)
    scores = product(t, "scores", q, k, rows, spec.keys, shape, 2 * laid.pairs * spec.d_head)
    shape = Matmul(laid.chunks * spec.chunk, spec.distances, spec.d_head, laid.load.batch * spec.n_heads, weighed=False)
    flops = 2 * rows * spec.distances * spec.d_head
    far = product(t, "distance_scores", q, vectors, rows, spec.distances, shape, flops, of="positional")
    weights = t.made(rows, spec.keys, scores, far, split="tensor")
    t.op("softmax", "elementwise", "softmax", (scores, far), (weights,))

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage, vectors: Storage) -> Storage:
        tape.written_out("attention of chunks")
        with tape.region("attention", q, k, v, vectors):
            with tape.at("scores"):
                made = _scores(tape, laid, q, k, vectors)
            with tape.at("softmax"):
                shares = _shares(tape, laid, made, v.dtype)
            with tape.at("values"):
                values = Storage(laid.keys, v.dtype, v.grad, "tensor")
                return tape.like(tape.product(shares, values, laid.result))

    shape = Matmul(spec.chunk, spec.d_head, spec.keys, each, weighed=False)
    flops = 2 * laid.pairs * spec.d_head
    return product(t, "values", weights, v, q.rows, q.width, shape, flops, keeps=keeps, operands=read)


def _scores(tape: Tape, laid: _Laid, q: Storage, k: Storage, vectors: Storage) -> Storage:
    """Queries against keys and against distances: for each a copy of them, unless both find them as they lie."""
    queries = Storage(laid.steps * laid.width, q.dtype, q.grad, "tensor")
    again = queries if laid.one_head or laid.whole else tape.like(queries)
    near = tape.product(queries, Storage(laid.keys, k.dtype, k.grad, "tensor"), laid.pairs)
    far = tape.product(again, Storage(laid.vectors, vectors.dtype, vectors.grad, "none"), laid.pairs)
    return tape.like(near, far)


def _shares(tape: Tape, laid: _Laid, scores: Storage, dtype: str) -> Storage:
    """Scores through the cap, a buffer, hidden where a step sees no key, and through the softmax; in the order in which
    the product with values reads them."""
    if scores.grad:
        tape.keep(Storage(1, tape.settings.stream, False, "none"), "cap")
    capped = tape.reads_result(scores)
    if scores.grad:
        tape.keep(Storage(laid.steps * laid.spec.keys, "bool", False, "none"), "mask")
    shares = tape.cast(tape.reads_result(tape.like(capped), "fp32"), dtype)
    return shares if laid.one_head or is_exactly(laid.chunks, 1) else tape.like(shares)
